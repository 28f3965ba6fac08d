"""The time limit of a test that has failed holds for its teardown too.

pytest-timeout takes its limit away at the first failure, for a person who looks at it in a
debugger. A teardown that then waits for what the test has not done would wait for ever, and with it
the whole run.
"""

from typing import Any

import pytest

_SETTINGS = pytest.StashKey[Any]()


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
