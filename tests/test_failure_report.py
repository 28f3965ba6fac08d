"""A failing test shows a stranger how to repeat it, its workers' logs and the servers' state."""

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given

from onceward.servers.ports import HOST, free_port
from tests.failure_report import sections, show_on_failure, without_words
from tests.hostile import exceptions
from tests.stack import Servers

pytest_plugins = ["pytester"]


@dataclass(frozen=True)
class _Process:
    log: Path


def test_it_shows_the_command_the_logs_and_the_servers(tmp_path: Path) -> None:
    process = _Process(tmp_path / "worker-0.log")
    process.log.write_text("it began\nit failed\n")
    show_on_failure(process)
    closed = free_port()
    redis = f"redis://user:secret@{HOST}:{closed}/0"
    shown = dict(sections("tests/test_a.py::test_b[sqlite]", Servers(redis=redis)))
    assert shown["to repeat it"] == "make test ARGS='\"tests/test_a.py::test_b[sqlite]\"'"
    assert shown["log of worker-0.log"].endswith("it failed")
    assert f"{HOST}:{closed}: [Errno 111]" in shown["servers"]
    assert "secret" not in shown["servers"]


def test_a_setting_that_is_no_url_is_shown_and_one_without_a_port_has_the_usual_one() -> None:
    servers = Servers(redis="redis://h:port/0", postgres="postgresql://nowhere.invalid/j")
    shown = dict(sections("t", servers))["servers"]
    assert "Port could not be cast to integer" in shown
    assert "nowhere.invalid:5432: " in shown


def test_a_process_that_nothing_refers_to_is_not_shown(tmp_path: Path) -> None:
    process = _Process(tmp_path / "worker-9.log")
    show_on_failure(process)
    del process
    assert "log of worker-9.log" not in dict(sections("t", Servers()))


@given(exceptions())
def test_whatever_cannot_be_shown_is_named_with_its_frames(error: BaseException) -> None:
    def fail() -> None:
        try:
            raise error
        except BaseException:
            raise ResourceWarning("left open") from None

    call = pytest.CallInfo.from_call(fail, "call")
    item = SimpleNamespace(nodeid="t", location=("t.py", 1, "t"))
    lines = str(without_words(cast(pytest.Item, item), call).longrepr).splitlines()
    assert any(line.endswith(" fail") for line in lines)
    assert "ResourceWarning ResourceWarning('left open')" in lines


@pytest.mark.long
def test_a_failure_that_cannot_be_shown_is_one_of_its_test_alone(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("from tests.conftest import pytest_runtest_makereport  # noqa: F401")
    pytester.makepyfile(
        """
class Meta(type):
    @property
    def __module__(cls):
        raise SystemExit


class Hostile(Exception, metaclass=Meta):
    __traceback__ = "no"


def test_a():
    try:
        raise Hostile
    except Hostile:
        raise ResourceWarning("left open")


def test_b():
    assert True
"""
    )
    ran = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    ran.assert_outcomes(failed=1, passed=1)
    ran.stdout.fnmatch_lines(
        ["*could not show*", "*test_a", "ResourceWarning*left open*", "Hostile"]
    )


@pytest.mark.long
def test_a_teardown_that_fails_alone_says_how_it_is_repeated(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("from tests.conftest import pytest_runtest_makereport  # noqa: F401")
    pytester.makepyfile(
        """
import pytest


@pytest.fixture
def broken():
    yield
    raise ValueError("too late")


def test_a(broken):
    pass


def test_b(broken):
    raise ValueError("already")
"""
    )
    ran = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    ran.assert_outcomes(passed=1, failed=1, errors=2)
    said = ran.stdout.str()
    assert said.count("::test_a\"'") == said.count("::test_b\"'") == 1


_ELSEWHERE = """
from tests.conftest import (  # noqa: F401
    pytest_handlecrashitem,
    pytest_report_to_serializable,
    pytest_runtest_makereport,
)
"""


@pytest.mark.long
def test_in_another_process_any_text_is_told_and_the_test_that_ended_it(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeconftest(_ELSEWHERE)
    pytester.makepyfile(
        r"""
import logging
import os


def test_a():
    logging.warning("logged \udcff")
    raise ValueError("raised \udcff")


def test_b():
    os._exit(3)


def test_c():
    assert True
"""
    )
    ran = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-n", "1")
    ran.assert_outcomes(passed=1, failed=2)
    ran.stdout.fnmatch_lines(["*raised \\udcff", "*logged \\udcff"])
    ran.stdout.fnmatch_lines(["*crashed while running*::test_b'", "make test ARGS=*::test_b*"])
