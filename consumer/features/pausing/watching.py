"""The thread by which a worker tells the journal which topics it has stopped, and learns of others.

A stop is in force in its own worker from the failure on; here it is written, again and again until
the journal has it. If the worker dies in between, the group goes on: the dead letter is kept all
the same.
"""

from __future__ import annotations

import random
import threading
from typing import Protocol

from consumer.features.pausing.pausing import Pausing
from consumer.journal import JournalUnavailable
from consumer.journal.pauses import PauseRow
from feedback.logs import EventLog

log = EventLog("onceward.pausing")

LOOK_EVERY_S = (0.6, 0.9)
STOP_S = 2.0


class Rows(Protocol):
    """Knows the pauses of the group."""

    def pause(self, topic: str, *, reason: str, by: str) -> bool: ...
    def paused(self) -> list[PauseRow]: ...
    def close(self) -> None: ...


class Watching:
    """Looks into the journal every second, until stopped.

    Args:
        pausing: the pauses that this worker knows.
        rows: with a connection of its own.
    """

    def __init__(self, pausing: Pausing, rows: Rows) -> None:
        self._pausing = pausing
        self._rows = rows
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="onceward-pauses", daemon=True)

    def start(self) -> None:
        """Learn which topics are paused, before anything is read, and go on looking.

        Raises:
            JournalUnavailable: the worker cannot start without knowing.
        """
        self.look()
        self._thread.start()

    def stop(self) -> None:
        """End the thread; one that waits for a database that hangs is left behind, a daemon."""
        self._stopping.set()
        self._pausing.news.set()
        if self._thread.is_alive():
            self._thread.join(STOP_S)

    def look(self) -> None:
        """Write new pauses, and read those of the group.

        Raises:
            JournalUnavailable: look again.
        """
        for one in self._pausing.unwritten():
            self._rows.pause(one.topic, reason=one.reason, by=one.by)
            self._pausing.written(one)
        self._pausing.learn(self._rows.paused())

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                # Workers that were started together must not ask together.
                self._pausing.news.wait(random.uniform(*LOOK_EVERY_S))
                self._pausing.news.clear()
                try:
                    self.look()
                except JournalUnavailable as error:
                    log.debug("pauses.unknown", reason=error.reason)
                    self._stopping.wait(LOOK_EVERY_S[0])
        finally:
            self._rows.close()
