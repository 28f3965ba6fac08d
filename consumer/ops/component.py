"""The parts of a worker that are started and stopped: one list, in order, each with a deadline."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass


def _nothing() -> None:
    """Begin nothing, or bring in nothing."""


def _no_end(timeout_s: float) -> None:
    """End nothing."""


def _at_once(timeout_s: float) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Component:
    """A part of a worker.

    Args:
        name: in the log.
        start: begins; an error of it keeps the worker from starting.
        leave: brings in no more requests from now on; returns at once.
        has_left: whether it brings in no more, after at most these seconds.
        stop: ends it; given `stop_s`.
        stop_s: seconds that its end may take. It leaves behind, as a daemon, a thread that waits
            for a server for longer.
    """

    name: str
    start: Callable[[], None] = _nothing
    leave: Callable[[], None] = _nothing
    has_left: Callable[[float], bool] = _at_once
    stop: Callable[[float], None] = _no_end
    stop_s: float = 0.0


def started(components: Iterable[Component]) -> ExitStack:
    """Start components in their order; closing the answer stops them in reverse.

    Where one cannot start, those before it are stopped. Where one fails to stop, the others are
    stopped all the same.
    """
    with ExitStack() as ends:
        for one in components:
            one.start()
            ends.callback(one.stop, one.stop_s)
        return ends.pop_all()
