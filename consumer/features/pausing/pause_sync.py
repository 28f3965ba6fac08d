"""The thread that writes a worker's stopped topics to the journal, and reads those of others.

A stop is in force in its own worker before anything else of the topic is claimed. This thread
writes it, again and again, until the journal has it. If the worker dies in between, the group goes
on: the dead letter is stored all the same.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from typing import ClassVar, Protocol

from consumer.features.dead_letters.strategies import STOP, strategy_of
from consumer.features.pausing.circuit_breaker import CircuitBreaker
from consumer.features.pausing.pausing import PauseListener, Pausing
from consumer.journal import JournalUnavailable
from consumer.journal.pauses import PauseRow, Pauses
from consumer.loop.core import Core
from consumer.loop.feature import Feature
from feedback.logs import EventLog

log = EventLog("onceward.pausing")

LOOK_EVERY_S = (0.6, 0.9)
# How many slots a hanging counterparty may fill with probes, besides those that it filled before.
PROBES_SHARE = 4


def make(core: Core) -> Sequence[Feature]:
    """Return the paused topics' gate, and the thread that shares them with the group.

    Always: a person may pause any topic.
    """
    settings, worker = core.settings, core.settings.worker
    topics = core.by_topic.keys()
    pausing = Pausing(
        guard=CircuitBreaker(
            share=worker.outage_share,
            window=worker.outage_window,
            probes=max(1, worker.slots // PROBES_SHARE),
        ),
        topics=topics,
        stopping=[topic for topic in topics if strategy_of(settings, topic) == STOP],
        me=core.worker_id,
        listeners=core.made(PauseListener),
        wake=core.wake,
    )
    core.gates.append(pausing)
    rows = Pauses.from_settings(settings).timed(core.observers, "pauses")
    return (pausing, PauseSync(pausing, rows))


class PauseRows(Protocol):
    """Knows the pauses of the group."""

    def pause(self, topic: str, *, reason: str, by: str) -> bool: ...
    def paused(self) -> list[PauseRow]: ...
    def close(self) -> None: ...


class PauseSync(Feature):
    """Looks into the journal every second, until stopped."""

    name: ClassVar[str] = "pauses"
    stop_s: ClassVar[float] = 2.0

    def __init__(self, pausing: Pausing, rows: PauseRows) -> None:
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

    def stop(self, timeout_s: float) -> None:
        """End the thread; one that waits for a database that hangs is left behind, a daemon."""
        self._stopping.set()
        self._pausing.news.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def look(self) -> None:
        """Write new pauses, and read those of the group."""
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
