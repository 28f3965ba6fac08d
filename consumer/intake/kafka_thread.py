"""A thread that reads Kafka: its start, its turns, and its end."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

from consumer.intake.context import IntakeContext
from consumer.intake.gate import Gates
from feedback.errors import KafkaUnavailable, OncewardError
from feedback.kafka.source import KafkaSource
from feedback.logs import EventLog
from feedback.outages import OutageLog


class KafkaThread(ABC):
    """Takes one turn after the other with a source of its own until it is told to stop.

    Args:
        context: its worker.
        name: of the thread and of its log.
        away: the log's word for Kafka when it does not answer this thread.
        open_source: makes the `KafkaSource`; called in this thread, since a kafka-python consumer
            belongs to one thread. None: there is nothing to read, and the thread ends.
    """

    def __init__(
        self,
        context: IntakeContext,
        name: str,
        *,
        away: str,
        open_source: Callable[[], KafkaSource | None],
    ) -> None:
        self._wake = context.wake
        self._gates = Gates(context.gates)
        self._on_end = context.on_end
        self._name = name
        self._log = EventLog(f"onceward.{name}")
        self._outage = OutageLog(self._log, f"{away}.away", f"{away}.back")
        self._open_source = open_source
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"onceward-{name}", daemon=True)

    def start(self) -> None:
        """Join the group and begin to read."""
        self._thread.start()

    def leave(self) -> None:
        """Stop reading and leave the group; returns at once, see `has_left`."""
        self._stopping.set()

    def has_left(self, timeout_s: float) -> bool:
        """Return whether the thread has ended, after at most `timeout_s`."""
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @abstractmethod
    def _turn(self, source: KafkaSource) -> None:
        """Read once, and handle the records."""

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            source = self._open_source()
            if source is not None:
                self._read_on(source)
        except OncewardError as fault:
            error = fault
            self._log.error(f"{self._name}.ended", reason=str(fault))
        except BaseException as fault:
            # The worker must know of any error: one that reads nothing must not live on.
            error = fault
            self._log.exception(f"{self._name}.failed")
        self._on_end(error)

    def _read_on(self, source: KafkaSource) -> None:
        try:
            while not self._stopping.is_set():
                self._turn(source)
        finally:
            self._leave(source)

    def _leave(self, source: KafkaSource) -> None:
        try:
            source.close()
        except KafkaUnavailable as error:
            # The group finds out by itself, after the session; that is no reason to fail now.
            self._log.warning("group.not_left", reason=str(error))

    def _note_kafka(self, error: KafkaUnavailable | None) -> None:
        if error is None:
            self._outage.ends()
        else:
            self._outage.begins(error)
