"""What a client is told: statuses made of deliveries, outcomes and journal rows. Pure."""

from __future__ import annotations

from consumer.delivery import Delivery
from consumer.journal import Finish, Row
from feedback.status import State
from feedback.statuses import StatusWrite


def accepted(one: Delivery, *, worker_id: str) -> StatusWrite:
    """ACCEPTED by this worker: read, about to be committed, not yet claimed."""
    return _before_claim(one, {"worker": worker_id, **_coordinates(one)}, held_by=None)


def given_up(one: Delivery, *, worker_id: str, code: str = "") -> StatusWrite:
    """ACCEPTED by nobody: it reads as LOST, and its client resends it at once.

    Taken only while this worker stands in the status, since another may own it by now.
    """
    return _before_claim(one, {"worker": "", "code": code}, held_by=worker_id)


def _before_claim(one: Delivery, fields: dict[str, str], *, held_by: str | None) -> StatusWrite:
    return StatusWrite(
        request_id=one.request_id,
        state=State.ACCEPTED,
        attempt=one.envelope.attempt,
        generation=0,
        payload_sha256=one.payload_sha256,
        fields=fields,
        held_by=held_by,
    )


def _coordinates(one: Delivery) -> dict[str, str]:
    record = one.record
    return {
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "deadline_at": str(one.deadline_at),
    }


def finished(one: Delivery, finish: Finish, *, worker_id: str) -> StatusWrite:
    """The outcome of a run whose finish is in the journal.

    Its coordinates were told by ACCEPTED and are not repeated: this is told for every request.
    """
    fields = {"worker": worker_id}
    if finish.state == State.FAILED:
        fields["resend"] = "1" if finish.resend else "0"
    for name, value in (
        ("code", finish.code),
        ("message", finish.message),
        ("result", finish.result),
    ):
        if value is not None:
            fields[name] = value
    return StatusWrite(
        request_id=one.request_id,
        state=State(finish.state),
        attempt=one.envelope.attempt,
        generation=finish.generation,
        payload_sha256=one.payload_sha256,
        fields=fields,
    )


def from_row(row: Row, *, attempt: int | None = None, restore: bool = False) -> StatusWrite:
    """The status as the journal has it, which is the truth (contract, section 3).

    Args:
        attempt: of the delivery that asked, when that is higher than the row's.
        restore: another payload's status stands under this id and is put right.
    """
    fields = {
        "worker": row.owner or "",
        "topic": row.topic,
        "partition": str(row.partition),
        "offset": str(row.offset),
        "deadline_at": str(row.deadline_at),
    }
    state = State.RUNNING if row.state == "CLAIMED" else State(row.state)
    if state is not State.RUNNING:
        fields |= {
            "code": row.code or "",
            "message": row.message or "",
            "result": row.result or "",
            "resend": "1" if row.resend else "0",
            "by": row.by or "",
            "due_at": "" if row.due_at is None else str(row.due_at),
        }
    return StatusWrite(
        request_id=row.request_id,
        state=state,
        attempt=max(row.attempt, attempt or 0),
        generation=row.generation,
        payload_sha256=row.payload_sha256,
        fields=fields,
        restore=restore,
    )
