"""SIGUSR1 makes the logs of a worker one level more detailed, SIGUSR2 one level less.

The children get the level from the main process. `systemctl kill` may send the signal to all of
them, so they do nothing on it: each signal is one step.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from feedback import logs
from feedback.logs import EventLog

log = EventLog("onceward.log_level")


def stepped(level: str, steps: int) -> str:
    """Return a level that is so many steps more detailed, or less; there is one at each end. Pure.

    >>> stepped("INFO", 1), stepped("INFO", -2), stepped("DEBUG", 1)
    ('DEBUG', 'ERROR', 'DEBUG')
    """
    place = logs.LEVELS.index(level) - steps
    return logs.LEVELS[min(max(place, 0), len(logs.LEVELS) - 1)]


class LogLevelSignals:
    """Counts the signals; the loop asks for them, nothing is interrupted."""

    def __init__(self) -> None:
        # Appended to by a signal handler, at any moment of the reader.
        self._steps: deque[int] = deque()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear both signals until the block is left; only the main thread can."""
        steps = {signal.SIGUSR1: 1, signal.SIGUSR2: -1}

        def signalled(number: int, frame: FrameType | None) -> None:
            self._steps.append(steps[signal.Signals(number)])

        before = {one: signal.signal(one, signalled) for one in steps}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def apply(self, tell_children: Callable[[str], None]) -> None:
        """Set the level that was asked for since the last call, if one was.

        Args:
            tell_children: gives them the level.
        """
        while self._steps:
            before = logs.level()
            after = stepped(before, self._steps.popleft())
            most = min(before, after, key=logs.LEVELS.index)
            # Said at the more detailed of the two, so that it is said at all.
            logs.set_level(most)
            log.warning("log_level.changed", now=after, before=before)
            logs.set_level(after)
            tell_children(after)
