"""Interrupts of the main thread at a given step, as a signal handler makes them that raises.

Python calls a handler as a function begins, after a call of C, and within calls that wait. The
trace function here raises at the first two, so each of them can be reached. A handler of SIGALRM
reaches all three, by chance.
"""

from __future__ import annotations

import _weakrefset
import dis
import itertools
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

_SWALLOWING = {_weakrefset.__file__, weakref.__file__}
_CALLS = {dis.opmap[name] for name in ("CALL", "CALL_FUNCTION_EX") if name in dis.opmap}


class Interrupt(BaseException):
    """As `KeyboardInterrupt`: no error of the code that it strikes."""


def interrupted_everywhere(call: Callable[[], object], *, every: int = 1) -> Iterator[str]:
    """Make a call again and again, interrupted later each time, until it ends unharmed.

    Args:
        every: by so many steps later.

    Yields:
        the place of each interrupt, after it has come out of the call.
    """
    for place, error in struck_everywhere(call, Interrupt, every=every):
        assert type(error) is Interrupt, f"the interrupt at {place} was swallowed"
        yield place


def struck_everywhere(
    call: Callable[[], object],
    kind: type[BaseException],
    *,
    every: int = 1,
    within: Collection[str] = (),
) -> Iterator[tuple[str, BaseException | None]]:
    """Make a call again and again, in which a handler raises later each time, until none does.

    Args:
        kind: of the handler's error.
        every: by so many steps later.
        within: the functions, by their qualified names, of which alone the steps count; all if it
            is empty.

    Yields:
        the place, and what the call has raised then.
    """
    assert threading.current_thread() is threading.main_thread(), "no handler runs elsewhere"
    for step in itertools.count(0, every):
        struck = _Strike(step, kind, within)
        told: BaseException | None = None
        try:
            struck.during(call)
        except (kind, Exception) as error:
            if not struck.place:
                raise
            told = error
        if not struck.place:
            return
        yield struck.place, told


@contextmanager
def alarms() -> Iterator[Callable[[float], None]]:
    """Yield a function that lets a handler of SIGALRM raise so many seconds later; 0: none."""

    def strike(*_: object) -> None:
        raise Interrupt

    before = signal.signal(signal.SIGALRM, strike)
    try:
        yield lambda later_s: signal.setitimer(signal.ITIMER_REAL, later_s) and None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class _Strike:
    def __init__(self, step: int, kind: type[BaseException], within: Collection[str]) -> None:
        self._left = step
        self._kind = kind
        self._within = within
        self._has_called: set[int] = set()
        self._codes: dict[CodeType, bytes] = {}
        self.place = ""

    def during(self, call: Callable[[], object]) -> None:
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            call()
        finally:
            sys.settrace(before)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        if event == "return":
            # No handler is called as a function in Python returns.
            self._has_called -= {id(frame), id(frame.f_back)}
        elif event == "call":
            self._count(frame)
        elif event == "opcode":
            if id(frame) in self._has_called:
                self._has_called.discard(id(frame))
                self._count(frame)
            code = self._codes.setdefault(frame.f_code, frame.f_code.co_code)
            if code[frame.f_lasti] in _CALLS:
                self._has_called.add(id(frame))
        return self._trace

    def _count(self, frame: FrameType) -> None:
        if self._within and frame.f_code.co_qualname not in self._within:
            return
        self._left -= 1
        if self._left < 0 and not self.place and not _is_swallowed(frame):
            self.place = f"{frame.f_code.co_qualname}, line {frame.f_lineno}"
            raise self._kind(self.place)


def _is_swallowed(frame: FrameType | None) -> bool:
    """Whether it is code that runs as an object is dropped: whatever that raises is swallowed."""
    while frame is not None:
        if frame.f_code.co_name == "__del__" or frame.f_code.co_filename in _SWALLOWING:
            return True
        frame = frame.f_back
    return False
