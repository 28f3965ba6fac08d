"""A record as the worker received it: either a delivery that may run, or a refused one. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from consumer.handlers.declaration import Handler
from feedback.errors import InvalidMessage
from feedback.records.dead_letters import envelope_of_letter
from feedback.records.envelope import (
    MAX_EPOCH_MS,
    Envelope,
    FirstPlace,
    Record,
    decode_headers,
    payload_sha256,
)
from feedback.records.schemas import value_fault

INVALID_MESSAGE = "INVALID_MESSAGE"
PAYLOAD_MISMATCH = "PAYLOAD_MISMATCH"


class Delivery(NamedTuple):
    """One read of one record that names a request (docs: Words).

    Attributes:
        deadline_at: epoch ms; the sender's, else the record's timestamp + `deadline_s`.
        buffered_s: monotonic time at which it was read, to be committed and buffered.
        wakes: for the record of a retry: the generation of the run that it is to follow; else 0.
        retried: how many runs of this attempt have failed and are followed by this one.
        first_failed_at: epoch ms of the first of them, by the journal's clock; 0 without one.
        taken: which taking of an unfinished request this is: 1, and 1 more for each worker that
            took it over from another one.
        begins_at: generation of its first run, where a journal that is gone has had others.
        voids: how often a run was declared void, once it is claimed: its key derives from that.
        claimed_at: epoch ms of its claim, by the journal's clock; 0 before it is claimed.
        is_known: whether Redis knew of a run of it when it was read, or others may have run it
            since.
    """

    record: Record
    envelope: Envelope
    handler: Handler
    payload_sha256: str
    deadline_at: int
    buffered_s: float
    wakes: int = 0
    retried: int = 0
    first_failed_at: int = 0
    taken: int = 1
    begins_at: int = 1
    voids: int = 0
    claimed_at: int = 0
    is_known: bool = False

    @property
    def request_id(self) -> str:
        """The request's id."""
        return self.envelope.request_id

    @property
    def sent_at(self) -> int | None:
        """Of a record that names no deadline: epoch ms of its own time, -1 without one."""
        if self.envelope.deadline_at is not None:
            return None
        return max(-1, self.record.timestamp_ms)

    @property
    def first(self) -> FirstPlace | None:
        """The place of its first record, where its own coordinates do not say all of that."""
        if self.envelope.first is not None or self.sent_at is None:
            return self.envelope.first
        return FirstPlace(
            self.record.topic, self.record.partition, self.record.offset, self.sent_at
        )

    @property
    def may_have_run(self) -> bool:
        """Whether a run of it may have been told already: it is a resend, a retry, taken over from
        a worker that may have begun it, or known."""
        is_again = self.envelope.attempt > 1 or self.wakes > 0 or self.taken > 1
        return is_again or self.is_known


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A record that breaks the rules. It never runs; a row and a status say why.

    Attributes:
        request_id: its coordinates when the headers are at fault, so that no existing request is
            touched; its own id when only the value does not match the handler's model or schema.
        reopens: as of an `Envelope`, where the record has its own id.
    """

    record: Record
    request_id: str
    attempt: int
    payload_sha256: str
    deadline_at: int
    code: str
    message: str
    reopens: int | None = None


def receive(
    record: Record,
    handler: Handler,
    *,
    group: str,
    default_deadline_s: float,
    now_s: float,
    now_ms: int,
) -> Delivery | RefusedRecord:
    """Return the delivery of a record, its headers read and checked.

    Args:
        group: the worker's.
        default_deadline_s: for requests without a deadline, where the handler names none.
        now_s: monotonic now.
        now_ms: epoch now, in place of a time that the record lacks.
    """
    deadline_s = default_deadline_s if handler.deadline_s is None else handler.deadline_s
    # A record without a time, as old clients write it, is -1.
    sent_ms = record.timestamp_ms if record.timestamp_ms >= 0 else now_ms
    fallback = min(sent_ms + int(deadline_s * 1000), MAX_EPOCH_MS)  # senders choose their times
    digest = payload_sha256(record.key, record.value)
    decode = decode_headers if handler.dead_letters_of is None else envelope_of_letter
    try:
        envelope = decode(record, group=group)
    except InvalidMessage as error:
        why = error.reason
        return RefusedRecord(
            record, record.coordinates_id, 1, digest, fallback, INVALID_MESSAGE, why
        )
    deadline_at = fallback if envelope.deadline_at is None else envelope.deadline_at
    if handler.model is not None or handler.schema is not None:
        fault = value_fault(record.value, model=handler.model, schema=handler.schema)
        if fault is not None:
            return RefusedRecord(
                record,
                envelope.request_id,
                envelope.attempt,
                digest,
                deadline_at,
                INVALID_MESSAGE,
                fault,
                envelope.reopens,
            )
    return Delivery(record, envelope, handler, digest, deadline_at, now_s)


def mismatch(delivery: Delivery) -> RefusedRecord:
    """Return the refusal of a record whose id belongs to another payload, or to another topic
    (docs: The guarantee)."""
    return refused_delivery(delivery, PAYLOAD_MISMATCH, _taken(delivery.request_id))


def mismatch_of_refused(one: RefusedRecord) -> RefusedRecord:
    """Return the refusal of a record that was refused under an id which another payload has."""
    return replace(
        one,
        request_id=one.record.coordinates_id,
        code=PAYLOAD_MISMATCH,
        message=_taken(one.request_id),
    )


def _taken(request_id: str) -> str:
    return f"request id {request_id} is taken by another key, value or topic"


def refused_delivery(delivery: Delivery, code: str, message: str) -> RefusedRecord:
    """Return the refusal of a delivery under its coordinates: no existing request is touched."""
    return RefusedRecord(
        record=delivery.record,
        request_id=delivery.record.coordinates_id,
        attempt=delivery.envelope.attempt,
        payload_sha256=delivery.payload_sha256,
        deadline_at=delivery.deadline_at,
        code=code,
        message=message,
    )
