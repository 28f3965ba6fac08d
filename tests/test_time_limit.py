"""A teardown that waits for ever ends, also after a failure; a report has no limit."""

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

TESTS = """
import threading

import pytest


@pytest.fixture
def waits_for_ever():
    yield
    threading.Event().wait()


@pytest.mark.timeout(4)
def test_fails(waits_for_ever):
    raise AssertionError("as it happens")


def test_next():
    pass
"""

# As on a machine that takes long for it.
SLOW_REPORTS = """
import threading

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call):
    if call.excinfo:
        threading.Event().wait(4)
    return (yield)
"""

FAILS_LATE = """
import pytest


@pytest.mark.timeout(2)
def test_fails():
    raise AssertionError("as it happens")


def test_next():
    pass
"""


LEAVES_A_THREAD = """
import threading


def test_leaves_a_thread():
    threading.Thread(target=threading.Event().wait).start()
"""

ENDS_SOON = "from tests import time_limit\n\ntime_limit.END_LIMIT_S = 0.5\n"


def test_the_teardown_of_a_failed_test_has_a_time_limit(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(TESTS)
    ran = _run(pytester, monkeypatch)
    ran.assert_outcomes(passed=1, failed=1, errors=1)
    ran.stdout.fnmatch_lines(["*Failed: Timeout*", "E*as it happens"])


def test_a_limit_that_ends_in_the_report_of_a_failure_ends_no_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeconftest(SLOW_REPORTS)
    pytester.makepyfile(FAILS_LATE)
    ran = _run(pytester, monkeypatch)
    ran.assert_outcomes(passed=1, failed=1)
    ran.stdout.fnmatch_lines(["E*as it happens"])


def test_a_thread_that_never_ends_is_shown_and_does_not_hold_up_the_end(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeconftest(ENDS_SOON)
    pytester.makepyfile(LEAVES_A_THREAD)
    ran = _run(pytester, monkeypatch)
    ran.assert_outcomes(passed=1)
    assert ran.ret != pytest.ExitCode.OK
    ran.stderr.fnmatch_lines(["Timeout*", "*threading.py*in wait"])


def _run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.RunResult:
    """Run pytest in a process of its own: the alarm of a time limit belongs to a process."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    return pytester.runpytest_subprocess("-p", "tests.time_limit", timeout=90)
