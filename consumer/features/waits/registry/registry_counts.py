"""The counts of a registry, and the line that it logs of them, at most each minute."""

from __future__ import annotations

from dataclasses import dataclass, field

from consumer.features.waits.registry.wait_rows import PartitionContent, WaitChanges
from feedback.kafka.values import Partition
from feedback.logs import EventLog

log = EventLog("onceward.waits")

EVERY_S = 60.0
# Lines between two of these; the rest is counted only.
MALFORMED_LINES = 20
# Further apart than this, a worker's clock makes requests expire early or late.
CLOCKS_APART_MS = 60_000


@dataclass(slots=True)
class RegistryCounts:
    """Counts since the start, but for those that are marked as of now.

    Attributes:
        expired: moved to the dead letters.
        refused: letters that Kafka does not take as they are.
        held: past their expiry now, and left to their living holders, in each partition.
    """

    expired: int = 0
    malformed: int = 0
    refused: int = 0
    held: dict[Partition, int] = field(default_factory=dict)
    _lines: int = 0
    _clocks_said: bool = False
    _due_s: float = 0.0

    def changed(self, place: Partition, changes: WaitChanges, *, now_ms: int) -> None:
        """Count records; log their faults, never their keys or values."""
        for record, reason in changes.malformed:
            self.malformed += 1
            self._lines += 1
            if self._lines <= MALFORMED_LINES:
                topic, number = place
                log.warning(
                    "waits.malformed",
                    topic=topic,
                    partition=number,
                    offset=record.offset,
                    reason=reason,
                )
        ahead_ms = changes.latest_ms - now_ms
        if ahead_ms > CLOCKS_APART_MS and not self._clocks_said:
            self._clocks_said = True
            log.warning("waits.clocks_apart", topic=place[0], ahead_s=ahead_ms // 1000)

    def is_due(self, now_s: float) -> bool:
        """Whether it is time for a line."""
        return now_s >= self._due_s

    def say(self, standing: PartitionContent, *, now_s: float) -> None:
        log.info(
            "waits.status",
            waiting=standing.waiting,
            oldest_s=standing.oldest_ms // 1000,
            expired=self.expired,
            held=sum(self.held.values()),
            malformed=self.malformed,
            refused=self.refused,
        )
        self._due_s = now_s + EVERY_S
        self._lines, self._clocks_said = 0, False
