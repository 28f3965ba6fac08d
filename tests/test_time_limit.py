"""A teardown that waits for ever ends, also after a failure."""

import pytest

from tests import time_limit

pytest_plugins = ["pytester"]

TESTS = """
import threading

import pytest


@pytest.fixture
def waits_for_ever():
    yield
    threading.Event().wait()


@pytest.mark.timeout(0.5)
def test_fails(waits_for_ever):
    raise AssertionError("as it happens")


def test_next():
    pass
"""


@pytest.mark.timeout(30)
def test_the_teardown_of_a_failed_test_has_a_time_limit(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    ran = pytester.runpytest_inprocess("-p", "no:cacheprovider", plugins=[time_limit])
    ran.assert_outcomes(passed=1, failed=1, errors=1)
    ran.stdout.fnmatch_lines(["*Failed: Timeout*", "E*as it happens"])
