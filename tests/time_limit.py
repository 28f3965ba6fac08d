"""The time limit of a test that has failed holds for its teardown too, and not for its report.

pytest-timeout takes its limit away at the first failure, for a person who looks at it in a
debugger. A teardown that then waits for what the test has not done would wait for ever, and with it
the whole run.

Until then it lets the limit go on while pytest writes the report, which takes seconds on a slow
machine. A limit that ends there is no failure of a test: pytest takes it for one of its own, and
ends the whole run.

A test that has failed may leave a thread that never ends. Python would wait for it when all tests
have ended, and say nothing.
"""

import faulthandler
import signal
from collections.abc import Generator
from typing import Any

import pytest

_SETTINGS = pytest.StashKey[Any]()
# From the end of a report to the teardown, in which the limit may end again.
LEAST_REST_S = 5.0
# From the last word of pytest to the end of its process.
END_LIMIT_S = 60.0


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> None:
    """Keep the limit that the test has; pytest-timeout itself sets it."""
    item.stash[_SETTINGS] = settings


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """Set the limit again, where the test had one."""
    if isinstance(node, pytest.Item) and _SETTINGS in node.stash:
        settings = node.stash[_SETTINGS]
        node.ihook.pytest_timeout_set_timer(item=node, settings=settings)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Stop the limit's clock for the report."""
    left_s, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        return (yield)
    finally:
        if left_s:
            signal.setitimer(signal.ITIMER_REAL, max(left_s, LEAST_REST_S))


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """End the process with an error if it does not end by itself, and show what its threads do."""
    faulthandler.dump_traceback_later(END_LIMIT_S, exit=True)
