"""Fixtures for pytest, which finds them where Onceward is installed; unused they load nothing.

`--onceward-real` runs the same tests on real servers. A test that cannot be run there is shown as
skipped, with the sentence that says why.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from onceward.testing import Bench, MemoryClient, MemoryService
    from onceward.testing.real.servers import RealServers

OPTION = "--onceward-real"
_FOUND: pytest.StashKey[list[str]] = pytest.StashKey()
_SERVERS: pytest.StashKey[RealServers] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the switch."""
    parser.getgroup("onceward").addoption(
        OPTION,
        action="store_true",
        help="let benches run on real servers: those of ONCEWARD_* or ./onceward.toml, "
        "else of a running `onceward dev`, else started for the run",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Find or start the servers, once for all processes of a distributed run."""
    if not config.getoption(OPTION) or config.option.collectonly:
        return
    from feedback.errors import OncewardError

    found: list[str] = []
    # Libraries that are imported here may warn of themselves, which is nobody's finding.
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        from onceward.testing.real.bench import RealBench
        from onceward.testing.real.servers import RealServers
        from onceward.testing.real.switch import switch_on

        try:
            # The first process has told the others by its environment.
            servers = RealServers(starts=not hasattr(config, "workerinput"), say=found.append)
        except OncewardError as error:
            raise pytest.UsageError(f"{OPTION}: {error}") from error
    config.stash[_FOUND], config.stash[_SERVERS] = found, servers
    switch_on(servers, RealBench)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End what was started."""
    if (servers := config.stash.get(_SERVERS, None)) is not None:
        from onceward.testing.real.switch import switch_off

        switch_off()
        servers.close()


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Name the servers."""
    return [f"onceward: {line}" for line in config.stash.get(_FOUND, [])]


def _refusal(config: pytest.Config, error: BaseException | None) -> str | None:
    """Return why a test cannot be run on real servers; None where that is not its error."""
    if error is None or _SERVERS not in config.stash:
        return None
    from onceward.testing import NotReal

    return str(error) if isinstance(error, NotReal) else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Skip a test whose fixture cannot be had on real servers."""
    return (yield from _skipping(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Skip a test that real servers cannot run."""
    return (yield from _skipping(item))


def _skipping(item: pytest.Item) -> Generator[None, None, None]:
    try:
        return (yield)
    except Exception as error:
        if (why := _refusal(item.config, error)) is None:
            raise
        pytest.skip(f"not on real servers: {why}")


@pytest.fixture
def onceward_bench() -> Iterator[Callable[[Callable[..., Any]], Bench]]:
    """Return a function that makes a `Bench` of a handler; the test's end closes it."""
    from onceward.testing import Bench

    with ExitStack() as stack:
        yield lambda function: stack.enter_context(Bench(function))


@pytest.fixture
def onceward_client() -> Iterator[MemoryClient]:
    """Return a `MemoryClient` without handlers; the test's end closes it."""
    from onceward.testing import MemoryClient

    with MemoryClient() as client:
        yield client


@pytest.fixture
def onceward_service() -> Iterator[Callable[..., MemoryService]]:
    """Return a function that starts a `MemoryService`; the test's end closes it."""
    from onceward.testing import MemoryService

    with ExitStack() as stack:
        yield lambda *handlers, **given: stack.enter_context(MemoryService(*handlers, **given))
