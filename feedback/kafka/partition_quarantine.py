"""Leaves out partitions that Kafka refuses to this worker while it serves the others.

A topic whose access was taken away, or a batch that is corrupt on disk, fails at each fetch. It
must not look like an outage, nor cost the others anything. So it is left out for a while and then
tried again: a person repairs the cause.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from feedback.errors import NotAvailable
from feedback.logs import EventLog
from feedback.outages import fault_fields

if TYPE_CHECKING:
    from feedback.kafka.values import Partition

log = EventLog("onceward.set_aside")

# Longer than a broker may take for an answer: librdkafka goes where one sends it for which it has
# asked before.
RETRY_S = 15.0
# A partition that was tried again without a fault for so long is back, with records or without.
QUIET_S = 5.0


class PartitionQuarantine:
    """Knows partitions that are left out, and those being tried again. Belongs to one thread.

    Logs `partition.failed` once, however often it fails again, and `partition.back`.
    """

    def __init__(self) -> None:
        self._out: dict[Partition, float] = {}
        self._tried: dict[Partition, float] = {}
        self._why: dict[Partition, str] = {}

    @property
    def out(self) -> Collection[Partition]:
        """The partitions that are left out now."""
        return self._out.keys()

    @property
    def refusals(self) -> Collection[str]:
        """The faults of security for which partitions are left out, in sentences."""
        return {self._why[one] for one in (*self._out, *self._tried) if one in self._why}

    def fail(self, partitions: Iterable[Partition], error: NotAvailable, *, now_s: float) -> None:
        """Leave these out."""
        for one in partitions:
            if self._tried.pop(one, None) is None and one not in self._out:
                topic, partition = one
                named = {"topic": topic, "partition": partition, **fault_fields(error.fault)}
                log.error("partition.failed", **named, reason=str(error))
            self._out[one] = now_s + RETRY_S
            if error.fault is not None:
                self._why[one] = str(error)

    def due(self, now_s: float) -> list[Partition]:
        """Return partitions that are to be tried again from now on."""
        due = [one for one, until_s in self._out.items() if until_s <= now_s]
        for one in due:
            del self._out[one]
            self._tried[one] = now_s + QUIET_S
        return due

    def note_polled(self, read: Collection[Partition], *, now_s: float) -> None:
        """Note a poll without a fault, and its partitions."""
        back = [one for one, until_s in self._tried.items() if one in read or until_s <= now_s]
        for one in back:
            del self._tried[one]
            self._why.pop(one, None)
            log.info("partition.back", topic=one[0], partition=one[1])

    def keep(self, assigned: Collection[Partition]) -> None:
        """Forget partitions that other members have by now."""
        for partitions in (self._out, self._tried, self._why):
            for one in partitions.keys() - assigned:
                del partitions[one]
