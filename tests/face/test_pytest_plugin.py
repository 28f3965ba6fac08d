"""The fixtures that pytest finds where Onceward is installed."""

import configparser

import pytest

from tests.face.conftest import ROOT
from tests.face.test_public_names import loaded_by

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("no_handler_stays")
PLUGIN = "onceward.pytest_plugin"
TESTS = """
from onceward import Request, State, handler


@handler(topic="payments")
def charge(request: Request) -> int:
    return request.generation


def test_a_payment_is_made(onceward_bench):
    assert onceward_bench(charge).run({"amount": 5}).status.result == 1


def test_a_payment_whose_child_dies_is_in_doubt(onceward_bench):
    bench = onceward_bench(charge)
    bench.die_before_effect()
    assert bench.run({"amount": 5}).status.state is State.IN_DOUBT


def test_an_order_waits(onceward_client):
    sent = onceward_client.send({"amount": 5}, topic="payments", request_id="order-7")
    assert sent.status().state is State.PENDING
"""


def test_a_users_tests_have_a_bench_and_a_client(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    ran = pytester.runpytest_inprocess("-p", PLUGIN, "-p", "no:cacheprovider")
    ran.assert_outcomes(passed=3)


def test_pytest_finds_it_where_onceward_is_installed() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    assert setup["options.entry_points"]["pytest11"].strip() == f"{PLUGIN} = {PLUGIN}"


def test_unused_it_loads_none_of_our_libraries() -> None:
    loaded = loaded_by(f"import {PLUGIN}")
    assert not {"kafka", "redis", "sqlalchemy", "pydantic", "onceward.testing"} & loaded
