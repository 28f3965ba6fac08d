"""What a failing test shows besides its own words: how to repeat it, its workers, the servers."""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Protocol

import pytest

from onceward.servers.errors import tail
from tests.stack.servers import Servers

LOG_LINES = 40
# Modules whose exceptions say of themselves what they are.
_TRUSTED = frozenset({"builtins", "pytest", "_pytest.outcomes", "hypothesis.errors"})
_IS_SHOWN = pytest.StashKey[bool]()
_OF_A_CLASS = ("__name__", "__module__")
_BEHIND = tuple(BaseException.__dict__[name] for name in ("__cause__", "__context__"))


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
    yield "to repeat it", f"make test ARGS={_quoted(nodeid)}"
    for process in sorted(_processes, key=lambda one: str(one.log)):
        yield f"log of {process.log.name}", tail(process.log, LOG_LINES)
    faults = servers.faults()
    states = {name: faults.get(name, "accepts connections") for name in servers.settings()}
    yield "servers", "\n".join(f"{name}: {state}" for name, state in states.items())


def _quoted(nodeid: str) -> str:
    """Return an id as a word for a shell, then for make, and then for the shell of make."""
    for_last_shell = re.sub(r'(["`$\\])', r"\\\1", nodeid)
    for_make = for_last_shell.replace("$", "$$").replace("'", "'\\''")
    return f"'\"{for_make}\"'"


def without_words(item: pytest.Item, call: pytest.CallInfo[None]) -> pytest.TestReport:
    """Return the report of a failure that pytest could not show: its classes and its frames."""
    assert call.when != "collect"
    error, lines = (call.excinfo.value, [*_frames(call.excinfo.tb)]) if call.excinfo else (None, [])
    while error is not None:
        # Not by the error or its class themselves: they may answer by another error.
        name, module = (type.__dict__[key].__get__(type(error)) for key in _OF_A_CLASS)
        is_trusted = type(module) is str and module in _TRUSTED
        lines.append(f"{name} {BaseException.__repr__(error) if is_trusted else ''}".rstrip())
        error = next(filter(None, (one.__get__(error) for one in _BEHIND)), None)
        if len(lines) > LOG_LINES:
            break
    return pytest.TestReport(
        item.nodeid,
        item.location,
        {},
        "failed",
        "\n".join(["pytest could not show this failure", *lines]),
        call.when,
        duration=call.duration,
        start=call.start,
        stop=call.stop,
    )


def _frames(traceback: TracebackType | None) -> Iterator[str]:
    while traceback is not None:
        code = traceback.tb_frame.f_code
        yield f"{code.co_filename}:{traceback.tb_lineno} {code.co_name}"
        traceback = traceback.tb_next


def add_to(item: pytest.Item, report: pytest.TestReport, servers: Servers) -> None:
    """Add the sections to the first report that says of a test that it has failed."""
    if report.failed and not item.stash.get(_IS_SHOWN, False):
        item.stash[_IS_SHOWN] = True
        report.sections.extend(sections(report.nodeid, servers))


def as_utf8(told: object) -> object:
    """Return a report as it goes to another process, with escapes for what is no UTF-8.

    >>> as_utf8({"longrepr": ["caf\\udce9", 3]})
    {'longrepr': ['caf\\\\udce9', 3]}
    """
    match told:
        case str():
            return told.encode(errors="backslashreplace").decode()
        case dict():
            return {as_utf8(name): as_utf8(value) for name, value in told.items()}
        case list():
            return [as_utf8(one) for one in told]
        case tuple():
            return tuple(as_utf8(one) for one in told)
    return told
