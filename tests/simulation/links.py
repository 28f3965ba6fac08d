"""Kafka as processes see it: the surfaces of `KafkaSource` and `KafkaSender`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from feedback.errors import KafkaUnavailable
from feedback.kafka.send_errors import RecordUnknown, TopicAway
from feedback.kafka.source import CommitFailed
from feedback.kafka.values import Partition
from feedback.records.envelope import Record
from feedback.statuses import Status
from tests.simulation.kafka import request_id_of
from tests.simulation.processes import FaultKind, Process

if TYPE_CHECKING:
    from tests.simulation.world import World


class SimulatedSource:
    """A member of the group that reads and commits."""

    spacing_s = 0.0

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process
        self._is_paused = False

    def poll(self, timeout_s: float, *, max_records: int) -> list[Record]:
        """Return new records."""
        if "kafka" in self._world.away:
            raise KafkaUnavailable("Kafka is away")
        if self._is_paused:
            return []
        records = self._world.kafka.poll(self._process.name, max_records)
        if records:
            self._world.note(self._process, f"reads {', '.join(map(repr, records))}")
        return records

    @property
    def owned(self) -> frozenset[Partition]:
        """The partitions that this member reads."""
        owners = self._world.kafka.owners.items()
        return frozenset(one for one, owner in owners if owner == self._process.name)

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit the next offset to read of each partition."""
        wanted = dict(offsets)

        def commit() -> None:
            if not self._world.is_member(self._process.name):
                raise CommitFailed("the group has gone on without this member")
            self._world.kafka.commit(wanted)

        fault = self._process.armed.get("commits")
        if fault is not None and fault.kind is FaultKind.LATE:
            del self._process.armed["commits"]
            self._world.note(self._process, f"commits {wanted}: {fault.kind}")
            self._world.kafka.late.append(wanted)
            raise CommitFailed("timed out")
        self._world.call(self._process, "commits", f"commits {wanted}", commit, CommitFailed)

    def committed(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """Return the committed offset of each partition."""
        return self._world.call(
            self._process,
            "commits",
            "reads what is committed",
            lambda: {one: self._world.kafka.committed[one] for one in partitions},
            KafkaUnavailable,
        )

    def take_revoked(self) -> set[Partition]:
        """Return nothing: no topic here has wait records, for which alone it matters."""
        return set()

    def is_stable(self) -> bool:
        """Say that nobody is to ask where partitions are read on, for the same reason."""
        return False

    def rewind(self, offsets: Mapping[Partition, int]) -> None:
        """Read these partitions again from these offsets."""
        self._world.kafka.rewind(self._process.name, offsets)

    def pause(self) -> None:
        """Stop fetching."""
        self._is_paused = True

    def resume(self) -> None:
        """Fetch again."""
        self._is_paused = False

    def leave(self, topics: frozenset[str]) -> None:
        """Fetch nothing of these topics; none is paused in this world."""
        assert not topics


class SentRecord:
    """A record that Kafka has acknowledged, or not."""

    def __init__(self, error: RecordUnknown | None) -> None:
        self._error = error

    async def ending(self) -> None:
        """Return: it is acknowledged.

        Raises:
            RecordUnknown: it may or may not be there.
        """
        if self._error is not None:
            raise self._error

    def take_back(self) -> bool:
        """Say that a record that was handed over cannot be taken back."""
        return False


class SimulatedSender:
    """A producer.

    Args:
        known: the statuses that its process has read last, by request.
    """

    def __init__(self, world: World, process: Process, *, known: Mapping[str, Status]) -> None:
        self._world = world
        self._process = process
        self._known = known

    def send(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes]],
        deadline_s: float | None = None,
    ) -> SentRecord:
        """Hand a record over.

        Raises:
            TopicAway: Kafka is away, or refuses it.
        """
        fault = self._process.armed.get("kafka")
        if fault is not None and fault.kind is FaultKind.REFUSED:
            del self._process.armed["kafka"]
            self._world.note(self._process, f"sends: {fault.kind}")
            raise TopicAway("Kafka refuses it")
        if "kafka" in self._world.away:
            raise TopicAway("Kafka is away")
        now_ms = self._world.clock.epoch_ms()

        def append() -> Record:
            record = self._world.kafka.append(
                topic, key=key, value=value, headers=headers, now_ms=now_ms
            )
            self._world.watch.sent(record, self._known.get(request_id_of(record)))
            return record

        try:
            record = self._world.call(self._process, "kafka", "sends", append, RecordUnknown)
        except RecordUnknown as error:
            return SentRecord(error)
        self._world.note(self._process, f"has sent {record!r}")
        return SentRecord(None)
