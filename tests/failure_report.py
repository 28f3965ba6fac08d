"""What a failing test shows besides its own words: how to repeat it, its workers, the servers."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from onceward.servers.errors import tail
from tests.stack.servers import Servers

LOG_LINES = 40


class Logging(Protocol):
    """A process whose log lies in a file."""

    @property
    def log(self) -> Path:
        """The file."""


_processes: weakref.WeakSet[Logging] = weakref.WeakSet()


def show_on_failure(process: Logging) -> None:
    """Have the log's last lines shown when a test fails while something refers to the process."""
    _processes.add(process)


def sections(nodeid: str, servers: Servers) -> Iterator[tuple[str, str]]:
    """Yield the titles and texts to show with a failed test.

    Args:
        nodeid: the test, as pytest names it.
        servers: those that it used.
    """
    quoted = nodeid.replace("'", "'\\''")
    yield "to repeat it", f"make test ARGS='\"{quoted}\"'"
    for process in sorted(_processes, key=lambda one: str(one.log)):
        yield f"log of {process.log.name}", tail(process.log, LOG_LINES)
    faults = servers.faults()
    states = {name: faults.get(name, "accepts connections") for name in servers.settings()}
    yield "servers", "\n".join(f"{name}: {state}" for name, state in states.items())


def add_to(report: pytest.TestReport, servers: Servers) -> None:
    """Add the sections to the report of a failed call or setup."""
    if report.failed and report.when != "teardown":
        report.sections.extend(sections(report.nodeid, servers))
