"""A teardown that waits for ever ends, also after a failure."""

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


def test_the_teardown_of_a_failed_test_has_a_time_limit(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(TESTS)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    # In a process of its own: the alarm of a time limit belongs to a process.
    ran = pytester.runpytest_subprocess("-p", "tests.time_limit", timeout=90)
    ran.assert_outcomes(passed=1, failed=1, errors=1)
    ran.stdout.fnmatch_lines(["*Failed: Timeout*", "E*as it happens"])
