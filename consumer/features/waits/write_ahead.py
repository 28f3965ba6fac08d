"""Prepares requests that must not be lost, before the intake commits their offsets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from consumer.features.waits.declared import declared_by, may_run_again
from consumer.features.waits.wait_record import WaitRecord, encode_wait, wait_topic
from consumer.handlers.delivery import INVALID_MESSAGE, Delivery, RefusedRecord, refused_delivery
from consumer.intake.before_commit import BeforeCommit, PreparedRecords
from consumer.intake.buffer import Received
from consumer.loop.feature import Feature
from consumer.status.availability import ServerOutage
from feedback.errors import KafkaUnavailable
from feedback.kafka.outgoing import RecordRefused
from feedback.kafka.topics import KafkaTopics
from feedback.kafka.writer import KafkaWriter
from feedback.logs import EventLog

# The most bytes that a wait record adds to its request: the key a second time, names and numbers.
ROOM_BYTES = 65_536


class WaitRecordWriter:
    """Writes wait records. Safe to share between threads, which wait for each other."""

    def __init__(self, *, group: str, writer: KafkaWriter, topics: KafkaTopics) -> None:
        self._group = group
        self._writer = writer
        self._topics = topics
        self._lock = threading.Lock()

    def hold(self, waits: Iterable[tuple[WaitRecord, int | None]]) -> list[KafkaUnavailable | None]:
        """Write wait records, each into this partition of its topic or where its id belongs.

        Return for each None when Kafka has it, else the error.
        """
        with self._lock:
            those = list(waits)
            missing = self._missing({wait.record.topic for wait, _ in those})
            ready = [one for one in those if one[0].record.topic not in missing]
            records = [encode_wait(wait, group=self._group, partition=at) for wait, at in ready]
            said = iter(self._writer.write(records))
            return [
                missing[wait.record.topic] if wait.record.topic in missing else next(said)
                for wait, _ in those
            ]

    def close(self) -> None:
        """Close the connection; a record that is not acknowledged may or may not be written."""
        with self._lock:
            self._writer.close()

    def _missing(self, topics: Iterable[str]) -> dict[str, KafkaUnavailable]:
        missing: dict[str, KafkaUnavailable] = {}
        for topic in topics:
            name = wait_topic(topic, self._group)
            try:
                self._topics.ensure(name, like=topic, room_bytes=ROOM_BYTES, compacted=True)
            except KafkaUnavailable as error:
                missing[topic] = error
        return missing


log = EventLog("onceward.waits")

_ME = "intake"


class WriteAhead(Feature, BeforeCommit):
    """Writes wait records for those topics that want them. Belongs to the intake's thread.

    Args:
        topics: those with `delivery="at_least_once"`.
        give_back: lets any worker take these.
        has_journal: whether claims decide on runs: without a journal the handler alone does.
    """

    def __init__(
        self,
        *,
        worker_id: str,
        topics: Collection[str],
        wait_records: WaitRecordWriter,
        outage: ServerOutage,
        give_back: Callable[[Iterable[Delivery]], None],
        has_journal: bool,
    ) -> None:
        self._worker_id = worker_id
        self._topics = frozenset(topics)
        self._wait_records = wait_records
        self._outage = outage
        self._give_back = give_back
        self._has_journal = has_journal

    def prepare(self, received: Sequence[Received]) -> PreparedRecords:
        """Return which of these may be committed: those whose wait record Kafka has.

        If the process dies before, they are read again; after, a wait record names a dead worker.
        """
        wanted = [one for one in received if one.record.topic in self._topics]
        if not wanted:
            return PreparedRecords([*received], [])
        said = self._wait_records.hold((self._wait(one), None) for one in wanted)
        errors = {id(one): error for one, error in zip(wanted, said, strict=True)}
        self._note(next((error for error in said if _is_away(error)), None))
        return self._sorted(received, errors)

    def read_by_nobody(self, deliveries: Sequence[Delivery]) -> None:
        """Let any worker take these: their wait records name us, and we have dropped them.

        If the process dies before, their wait records name a dead worker. Another worker may have
        read them all the same, before anybody could ask. Then a claim lets one of the two run;
        where there is no journal, those that must not run twice are ours until we end.
        """
        self._give_back(
            one for one in deliveries if one.record.topic in self._topics and self._may_give(one)
        )

    def _may_give(self, one: Delivery) -> bool:
        return self._has_journal or may_run_again(one.handler, self._wait(one))

    def _wait(self, one: Received) -> WaitRecord:
        wait = WaitRecord(one.request_id, 1, self._worker_id, one.deadline_at, one.record)
        return declared_by(wait, one.handler) if isinstance(one, Delivery) else wait

    def _sorted(
        self, received: Sequence[Received], errors: dict[int, KafkaUnavailable | None]
    ) -> PreparedRecords:
        prepared = PreparedRecords([], [])
        # Records behind one that is left cannot be committed without it.
        closed: set[tuple[str, int]] = set()
        for one in received:
            error = errors.get(id(one))
            place = (one.record.topic, one.record.partition)
            if place in closed or _is_away(error):
                closed.add(place)
                prepared.left.append(one)
            elif error is None:
                prepared.received.append(one)
            else:
                prepared.received.append(self._refused(one, error))
        return prepared

    def _refused(self, one: Received, error: KafkaUnavailable) -> RefusedRecord:
        """Return the refusal of a request that cannot be stored: its topic would stand still."""
        log.error("wait.refused", request_id=one.request_id, reason=str(error))
        why = f"its wait record cannot be written: {error}"
        if isinstance(one, Delivery):
            return refused_delivery(one, INVALID_MESSAGE, why)
        return replace(one, message=why)

    def _note(self, error: KafkaUnavailable | None) -> None:
        if error is None:
            self._outage.ends(_ME)
        else:
            self._outage.begins(_ME, error)


def _is_away(error: KafkaUnavailable | None) -> bool:
    return error is not None and not isinstance(error, RecordRefused)
