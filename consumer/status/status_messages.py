"""The statuses that a client reads: made of deliveries, outcomes and journal rows. Pure.

Each status of a run says as well how its handler was declared (`effect_kind`, `in_doubt`), and when
it was claimed, by the journal's clock (`claimed_at`): a database may lose the claim, and the
handler may have been declared anew by then. Of any run but the first it says how many before it
were void (`voids`): the run's idempotency key derives from that.
"""

from __future__ import annotations

from consumer.handlers.delivery import Delivery
from consumer.journal import Finish, Row
from feedback.status import State
from feedback.statuses import Origin, StatusWrite


def accepted(one: Delivery, *, worker_id: str) -> StatusWrite:
    """ACCEPTED by this worker: read, about to be committed, not yet claimed."""
    return _before_claim(one, {"worker": worker_id, **_origin(one).fields}, held_by=None)


def given_up(one: Delivery, *, worker_id: str, code: str = "") -> StatusWrite:
    """ACCEPTED by nobody: it reads as LOST, and its client resends it at once.

    Taken only while this worker stands in the status, since another may own it by now.
    """
    fields = {"worker": "", "code": code, **_origin(one).fields}
    return _before_claim(one, fields, held_by=worker_id)


def _before_claim(one: Delivery, fields: dict[str, str], *, held_by: str | None) -> StatusWrite:
    return StatusWrite(
        request_id=one.request_id,
        state=State.ACCEPTED,
        attempt=one.envelope.attempt,
        generation=0,
        payload_sha256=one.payload_sha256,
        fields=fields | _first(one),
        held_by=held_by,
        reopens=one.envelope.reopens,
    )


def _first(one: Delivery) -> dict[str, str]:
    """Say which record a resend repeats: this one may never be claimed, and have been pruned."""
    return {} if one.first is None else {"first": one.first.text}


def _origin(one: Delivery) -> Origin:
    record = one.record
    return Origin(record.topic, record.partition, record.offset, one.deadline_at)


def finished(
    one: Delivery, finish: Finish, *, worker_id: str, due_at: int | None = None
) -> StatusWrite:
    """The outcome of a run whose finish is in the journal.

    Its coordinates were told by ACCEPTED, if Redis was there: they are told again only where they
    are missing, since this is told for every request.

    Args:
        due_at: of RETRYING: epoch ms of the next run.
    """
    fields = {"worker": worker_id, **_claimed(one, finish.generation)}
    if due_at is not None:
        fields["due_at"] = str(due_at)
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
        origin=_origin(one),
    )


def running(one: Delivery, generation: int, *, worker_id: str) -> StatusWrite:
    """RUNNING in a child of this worker, under a claim of this generation."""
    return StatusWrite(
        request_id=one.request_id,
        state=State.RUNNING,
        attempt=one.envelope.attempt,
        generation=generation,
        payload_sha256=one.payload_sha256,
        fields={"worker": worker_id, **_claimed(one, generation), **_origin(one).fields},
    )


def claimed_as(row: Row) -> dict[str, str]:
    """Say of a row's run where doubt begins, who decides then, when it was claimed, and its key."""
    return {
        "effect_kind": row.effect_kind or "",
        "in_doubt": row.in_doubt or "",
        "claimed_at": "" if row.claimed_at is None else str(row.claimed_at),
        **_key(row.voids, row.generation),
    }


def _claimed(one: Delivery, generation: int) -> dict[str, str]:
    handler = one.handler
    return {
        "effect_kind": handler.effect.value,
        "in_doubt": handler.in_doubt.value,
        "claimed_at": str(one.claimed_at or ""),
        **_key(one.voids, generation),
    }


def _key(voids: int, generation: int) -> dict[str, str]:
    """Say which of its request's keys a run has: nothing of a first run, which most have alone.

    A later run says so also when none was void: else the number of an earlier run would stand. A
    status without the field is an older worker's.
    """
    return {"voids": str(voids)} if generation > 1 else {}


def retrying(
    one: Delivery,
    generation: int,
    *,
    worker_id: str,
    due_at: int,
    row: Row | None = None,
) -> StatusWrite:
    """Between two runs: the last one has no end, and another may follow.

    Args:
        generation: of the run without an end.
        due_at: epoch ms of the next run.
        row: of that run, where another worker had claimed it.
    """
    return StatusWrite(
        request_id=one.request_id,
        state=State.RETRYING,
        attempt=one.envelope.attempt,
        generation=generation,
        payload_sha256=one.payload_sha256,
        fields={
            "worker": worker_id,
            "due_at": str(due_at),
            **(_claimed(one, generation) if row is None else claimed_as(row)),
            **_origin(one).fields,
        },
    )


def from_row(row: Row, *, attempt: int | None = None, restore: bool = False) -> StatusWrite:
    """The status as the journal has it, which is the truth (docs: The guarantee).

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
        **claimed_as(row),
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
