"""Sends one batch of rows: write PENDING, hand over to Kafka, find each row's result.

If the relay dies right after a step: after PENDING, see `row_pending`. After Kafka has taken the
record, the row still waits, and the next relay sends it again under the same id, which the journal
answers. Only rows that Kafka has acknowledged are ever marked.

Kafka gets rows in the order of their ids, from a producer that preserves it and never gives up a
record by itself. Records that are not acknowledged in time end the producer with all its others, so
that no record of a key overtakes an earlier one; the rows are read again from the database. So the
first records of a key's requests lie in the order of their rows, even if some are sent twice.

A forbidden topic is tried separately, by a producer of its own: the refusal ends a producer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from feedback.clock import monotonic_s
from feedback.errors import NotAvailable
from feedback.kafka.send_errors import (
    RecordNotSent,
    RecordUnknown,
    TopicAway,
    TopicForbidden,
    TopicUnknown,
)
from feedback.kafka.sending import OrderedSender, PendingRecord
from feedback.records.envelope import encode_headers
from producer_client.outbox.outbox_table import KafkaPlace, RowBatch
from producer_client.outbox.row import WaitingRow
from producer_client.outbox.row_pending import PendingWriter, RowStep, ToldRow
from producer_client.submission import Prepared

NOWHERE = KafkaPlace(None, None)
# A row that is sent alone was refused a moment ago: Kafka is there.
ALONE_S = 3.0
ALONE_AT_ONCE = 100

# None: it was sent together with a refused one, and waits on.
Ending = KafkaPlace | RecordNotSent | RecordUnknown | None


@dataclass(slots=True)
class RelayResults:
    """The results of a batch.

    Attributes:
        sent: by the row's id; without a place where the request has already ended.
        parked: reasons, by the row's id.
        away: topics that must rest for a while, and why.
        unknown: those of `away` that Kafka does not know.
        forbidden: those of `away` that this user may not write to.
    """

    sent: dict[int, KafkaPlace] = field(default_factory=dict)
    parked: dict[int, str] = field(default_factory=dict)
    away: dict[str, NotAvailable] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    forbidden: set[str] = field(default_factory=set)


@dataclass(slots=True)
class RelayBatch:
    """A batch that was handed to Kafka.

    Attributes:
        sender: has its records.
        launched_s: monotonic time of its launch.
        records: the records in Kafka's hands, or why there is none.
        landed: the results that do not need Kafka.
    """

    batch: RowBatch
    sender: OrderedSender
    launched_s: float = 0.0
    records: list[tuple[ToldRow, PendingRecord | RecordNotSent]] = field(default_factory=list)
    landed: RelayResults = field(default_factory=RelayResults)

    def is_settled(self, wait_s: float) -> bool:
        """Whether Kafka has answered for all of it, waiting for that at most so long."""
        until_s = monotonic_s() + wait_s
        for _, record in reversed(self.records):
            if isinstance(record, RecordNotSent):
                continue
            if not record.is_settled(max(0.0, until_s - monotonic_s())):
                return False
        return True

    def acknowledged(self) -> dict[int, KafkaPlace]:
        """Return the places of the records that Kafka has so far, by the row's id."""
        places: dict[int, KafkaPlace] = {}
        for told, record in self.records:
            if not isinstance(record, RecordNotSent) and record.is_settled(0.0):
                with suppress(RecordNotSent, RecordUnknown):
                    places[told.row.id] = _place(record)
        return places

    def open_topics(self) -> set[str]:
        """Return the topics with unacknowledged records."""
        return {
            told.request.payload.topic
            for told, record in self.records
            if not isinstance(record, RecordNotSent) and not record.is_settled(0.0)
        }


class RelaySender:
    """Sends batches. Belongs to one thread.

    Args:
        group: whose requests they are.
        sender: hands records to Kafka.
        apart: the sender for records that may end their producer.
        patience_s: how long Kafka may take to acknowledge a batch.
        tick: called between records that are sent alone, which may take long; says whether to go on
            with that.
    """

    def __init__(
        self,
        *,
        group: str,
        pending: PendingWriter,
        sender: OrderedSender,
        apart: OrderedSender,
        patience_s: float,
        tick: Callable[[], bool],
    ) -> None:
        self._group = group
        self._pending = pending
        self._sender = sender
        self._apart = apart
        self._patience_s = patience_s
        self._tick = tick

    def launch(self, batch: RowBatch, *, is_apart: bool = False) -> RelayBatch:
        """Write PENDING for the sendable rows of a batch, and hand them to Kafka.

        Args:
            is_apart: its topic was forbidden.

        Raises:
            RedisUnavailable: nothing was sent.
        """
        sender = self._apart if is_apart else self._sender
        shipment = RelayBatch(batch, sender)
        landed = shipment.landed
        refused = sender.look_up({row.request.payload.topic for row in batch.rows})
        known: list[WaitingRow] = []
        for row in batch.rows:
            error = refused.get(row.request.payload.topic)
            if error is None:
                known.append(row)
            elif _is_refusal(error):
                landed.parked[row.id] = f"REFUSED: {error}"
            else:
                _note(landed, row, error)
        away: dict[str, TopicAway] = {}
        for told in self._pending.tell(known):
            if told.step is RowStep.PARK:
                landed.parked[told.row.id] = told.reason
            elif told.step is RowStep.ANSWERED:
                landed.sent[told.row.id] = NOWHERE
            else:
                shipment.records.append(
                    (told, _hand_over(sender, told.request, away, group=self._group))
                )
        shipment.launched_s = monotonic_s()
        return shipment

    def is_overdue(self, shipment: RelayBatch) -> bool:
        """Whether Kafka's time is over."""
        return monotonic_s() > shipment.launched_s + self._patience_s

    def land(self, shipment: RelayBatch) -> RelayResults:
        """Return the results of a batch; records that Kafka has not answered for are given up."""
        landed, sender = shipment.landed, shipment.sender
        if not shipment.is_settled(0.0):
            # First: the records behind this one must not overtake it.
            sender.abandon()
        alone: list[ToldRow] = []
        for told, record in shipment.records:
            ending = _ending(sender, told, record)
            if _is_refusal(ending):
                alone.append(told)
            else:
                _note(landed, told.row, ending)
        if alone:
            self._send_each(sender, alone, landed)
        if sender is self._apart:
            sender.abandon()  # once a minute, or more rarely
        return landed

    def _send_each(
        self, sender: OrderedSender, refused: Sequence[ToldRow], landed: RelayResults
    ) -> None:
        """Find the records that Kafka refuses; those that are not tried wait on.

        A broker refuses a batch of Kafka's as a whole, and kafka-python's idempotent producer then
        reports the same error for all later records. So an error of several records means nothing,
        and each refusal ends the producer.
        """
        sender.abandon()
        for told in refused[:ALONE_AT_ONCE]:
            if not self._tick() or not _send_alone(sender, told, landed, group=self._group):
                break


def _hand_over(
    sender: OrderedSender, one: Prepared, away: dict[str, TopicAway], *, group: str
) -> PendingRecord | RecordNotSent:
    payload = one.payload
    if payload.topic in away:
        return away[payload.topic]
    try:
        return sender.send(
            payload.topic,
            key=payload.key,
            value=payload.value,
            headers=encode_headers(one.envelope, payload.headers, group=group),
        )
    except TopicAway as error:
        away[payload.topic] = error
        return error
    except RecordNotSent as error:
        return error


def _send_alone(sender: OrderedSender, told: ToldRow, landed: RelayResults, *, group: str) -> bool:
    """Send a row that was refused together with others; say whether Kafka is there."""
    record = _hand_over(sender, told.request, {}, group=group)
    if not isinstance(record, RecordNotSent) and not record.is_settled(ALONE_S):
        sender.abandon()
    ending = _ending(sender, told, record)
    if _is_refusal(ending):
        sender.abandon()
        landed.parked[told.row.id] = f"REFUSED: {ending}"
        return True
    _note(landed, told.row, ending)
    return isinstance(ending, KafkaPlace)


def _ending(sender: OrderedSender, told: ToldRow, record: PendingRecord | RecordNotSent) -> Ending:
    if isinstance(record, RecordNotSent):
        return record
    try:
        return _place(record)
    except TopicForbidden as error:
        sender.abandon()  # it would now report the same error for every topic
        return error if error.topic in (None, told.request.payload.topic) else None
    except RecordNotSent as error:
        return error
    except RecordUnknown as error:
        sender.abandon()
        return error


def _place(record: PendingRecord) -> KafkaPlace:
    stored = record.result()
    return KafkaPlace(stored.partition, stored.offset)


def _is_refusal(ending: Ending) -> bool:
    """Whether the record itself is at fault, or another one of its batch."""
    return isinstance(ending, RecordNotSent) and not isinstance(ending, TopicAway | TopicForbidden)


def _note(landed: RelayResults, row: WaitingRow, ending: Ending) -> None:
    if ending is None:
        return
    topic = row.request.payload.topic
    if isinstance(ending, KafkaPlace):
        landed.sent[row.id] = ending
        return
    landed.away.setdefault(topic, ending)
    if isinstance(ending, TopicUnknown):
        landed.unknown.add(topic)
    if isinstance(ending, TopicForbidden):
        landed.forbidden.add(topic)
