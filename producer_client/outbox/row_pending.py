"""Writes PENDING for the rows that a relay is about to send, and decides each row's next step.

If the relay dies right after it, the requests are PENDING with their payloads stored, and a check
of the resender is set. The resender sends them, and so does the next relay, under one id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from feedback.clock import epoch_ms
from feedback.errors import RedisRefused
from feedback.redis.split_batch import batches, write_apart
from feedback.redis.store import StatusStore
from feedback.status import FINAL, RefusalReason, State
from feedback.statuses import Refused, Status
from producer_client.outbox.row import WaitingRow
from producer_client.sending.resending import is_own_end, reopens
from producer_client.sending.send_rules import pending_write
from producer_client.submission import Prepared

MISMATCH = "PAYLOAD_MISMATCH: the id is taken by another key, value or topic"


class RowStep(StrEnum):
    """The next step of a row."""

    SEND = "send"
    ANSWERED = "answered"
    PARK = "park"
    LOOK = "look"


@dataclass(frozen=True, slots=True)
class ToldRow:
    """A row after its PENDING.

    Attributes:
        request: as it is sent.
        reason: why it is parked.
    """

    row: WaitingRow
    step: RowStep
    request: Prepared
    reason: str = ""


def step_after(refused: Refused | RedisRefused | None) -> RowStep:
    """Return the next step of a row whose PENDING was accepted (None) or refused. Pure."""
    if refused is None:
        return RowStep.SEND
    if isinstance(refused, RedisRefused) or refused.reason is RefusalReason.PAYLOAD:
        return RowStep.PARK
    if refused.state is State.FAILED and refused.resend:
        return RowStep.LOOK
    if refused.state is State.PENDING and refused.reason is RefusalReason.ATTEMPT:
        # Its writer may take it back: then a failure is shown while this row's record runs.
        return RowStep.LOOK
    # An open status may be of an attempt that Kafka has or has not: the journal answers a
    # duplicate.
    return RowStep.ANSWERED if refused.state in FINAL else RowStep.SEND


def _as_known(request: Prepared, known: Refused | Status | None) -> Prepared:
    """Return a request as the last attempt in its status.

    A waiting client may have tried to send it again meanwhile. If it were sent as an earlier
    attempt, its worker's statuses would be refused, and nobody would notice that worker's death.
    """
    envelope = request.envelope
    if known is None or known.attempt <= envelope.attempt:
        return request
    may_reopen = envelope.reopens
    if may_reopen is None:
        # This row does not ask about a failure that its client learns of from now on.
        may_reopen = reopens(known.state, known.generation)
    return replace(request, envelope=envelope._replace(attempt=known.attempt, reopens=may_reopen))


def _as_next(request: Prepared, failure: Status) -> Prepared:
    """Return a request as the attempt that opens this failure again, and no later one."""
    envelope = request.envelope._replace(
        attempt=failure.attempt + 1,
        deadline_at=failure.deadline_at or request.envelope.deadline_at,
        reopens=failure.generation,
        first=failure.first_place,
    )
    return replace(request, envelope=envelope)


class PendingWriter:
    """Writes PENDING for rows of the outbox.

    Args:
        resend_after_s: when the resender first checks them.
    """

    def __init__(self, store: StatusStore, *, resend_after_s: float) -> None:
        self._store = store
        self._resend_after_s = resend_after_s

    def tell(self, rows: Sequence[WaitingRow]) -> list[ToldRow]:
        """Write PENDING for each row, and return the rows with their next steps.

        Raises:
            RedisUnavailable: nothing may be sent. No resender looks after a request that Redis does
                not know; a worker that dies with it would leave it lost.
        """
        refused = self._write([one.request for one in rows])
        return [self._told(row, row.request, one) for row, one in zip(rows, refused, strict=True)]

    def _told(
        self, row: WaitingRow, request: Prepared, refused: Refused | RedisRefused | None
    ) -> ToldRow:
        """Return the next step of a row.

        PENDING is written once more where the status there asks for a look.

        Other writers go on meanwhile. Redis compares each PENDING with the status there by then
        (attempt, state and the failure that it may reopen). If that has changed, it is read anew.
        """
        while (step := step_after(refused)) is RowStep.LOOK:
            status = self._store.read(row.request.request_id)
            is_failure = status.state is State.FAILED and status.resend
            if is_failure and is_own_end(row.request.envelope, row.created_at, status):
                return ToldRow(row, RowStep.ANSWERED, row.request)
            known = _as_next if is_failure else _as_known
            request = known(row.request, status)
            (refused,) = self._write([request])
        if isinstance(refused, RedisRefused):
            return ToldRow(row, step, request, f"REDIS_REFUSED: {refused}")
        reason = MISMATCH if step is RowStep.PARK else ""
        return ToldRow(row, step, _as_known(request, refused), reason)

    def _write(self, requests: Sequence[Prepared]) -> list[Refused | RedisRefused | None]:
        look_at = epoch_ms() + int(self._resend_after_s * 1000)
        refused: list[Refused | RedisRefused | None] = []
        for batch in batches(pending_write(one, one.payload) for one in requests):
            refused += write_apart(self._store, batch, look_at=look_at)
        return refused
