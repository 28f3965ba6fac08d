"""The message about a request that has ended, and the content of its dead letter. Pure."""

from __future__ import annotations

from typing import NamedTuple

from consumer.features.waits.wait_record import WaitRecord
from consumer.handlers.delivery import Delivery
from consumer.journal.records import WORKER_DIED, Row
from feedback.status import State
from feedback.statuses import StatusWrite

_DIED = "the worker died; whether the effect happened is not known"


class WaitEnd(NamedTuple):
    """A request that has ended.

    Args:
        ended_as: the id that it ended under: that of its place, where it was refused.
        partition: of its wait record, where that is known.
        row: the content of its dead letter, where one is to be written first.
    """

    request_id: str
    ended_as: str
    topic: str
    generation: int
    status: str
    partition: int | None = None
    row: Row | None = None


class WaitCorrection(NamedTuple):
    """A wait record that takes the place of the one before; `partition` as for `WaitEnd`."""

    wait: WaitRecord
    partition: int | None


class WaitPlace(NamedTuple):
    """Where a wait record stands that was taken over: its key, and its partition."""

    request_id: str
    partition: int


def row_of_status(write: StatusWrite, *, worker_id: str, now_ms: int) -> Row:
    """Return a status as a row, for a letter: a request that ended without a row here has none."""
    write = write.placed
    fields = write.fields
    return Row(
        request_id=write.request_id,
        topic=fields.get("topic", ""),
        partition=int(fields.get("partition", 0)),
        offset=int(fields.get("offset", 0)),
        message_key=None,
        payload_sha256=write.payload_sha256,
        attempt=write.attempt,
        generation=write.generation,
        effect_kind=None,
        effect_at=None,
        deadline_at=int(fields.get("deadline_at", 0)),
        state=write.state,
        owner=fields.get("worker") or worker_id,
        claimed_at=now_ms if write.state is State.IN_DOUBT else None,
        due_at=None,
        finished_at=now_ms,
        code=fields.get("code") or str(write.state),
        message=fields.get("message"),
        result=None,
        resend=False,
        by=None,
        published_at=None,
        dead_letter_at=None,
        voids=0,
    )


def doubt(one: Delivery, *, worker_id: str) -> StatusWrite:
    """Return the status of a request whose worker died, and that must not run again."""
    record = one.record
    return StatusWrite(
        request_id=one.request_id,
        state=State.IN_DOUBT,
        attempt=one.envelope.attempt,
        generation=one.begins_at,
        payload_sha256=one.payload_sha256,
        fields={
            "worker": worker_id,
            "code": WORKER_DIED,
            "message": _DIED,
            "topic": record.topic,
            "partition": str(record.partition),
            "offset": str(record.offset),
            "deadline_at": str(one.deadline_at),
        },
    )
