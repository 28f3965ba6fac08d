"""PENDING told of what a relay is about to send, and what is to be done with each row then.

If the relay dies right after it, the requests are PENDING with their payloads kept and a look of
the resender ahead: it sends them, and so does the next relay, under one id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from feedback.apart import batches, write_apart
from feedback.clock import epoch_ms
from feedback.errors import RedisRefused
from feedback.status import FINAL, Refusal, State
from feedback.statuses import Refused
from feedback.store import StatusStore
from producer_client.outbox.row import WaitingRow
from producer_client.resending import is_own_end, reopens
from producer_client.submission import Prepared
from producer_client.way import pending_write

MISMATCH = "PAYLOAD_MISMATCH: the id is taken by another key, value or topic"


class Step(StrEnum):
    """What is done with a row next."""

    SEND = "send"
    ANSWERED = "answered"
    PARK = "park"
    LOOK = "look"


@dataclass(frozen=True, slots=True)
class Told:
    """A row after PENDING was told.

    Attributes:
        request: as it is sent.
        reason: why it is parked.
    """

    row: WaitingRow
    step: Step
    request: Prepared
    reason: str = ""


def step_after(refused: Refused | RedisRefused | None) -> Step:
    """Return what follows for a row whose PENDING was taken (None) or refused. Pure."""
    if refused is None:
        return Step.SEND
    if isinstance(refused, RedisRefused) or refused.reason is Refusal.PAYLOAD:
        return Step.PARK
    if refused.state is State.FAILED and refused.resend:
        return Step.LOOK
    # What is open may be of an attempt that Kafka has or has not: the journal answers a duplicate.
    return Step.ANSWERED if refused.state in FINAL else Step.SEND


def _as_known(request: Prepared, refused: Refused | None) -> Prepared:
    """Return a request as the last attempt of it that was told.

    A client that waits may have tried to send it again meanwhile. Sent as an earlier attempt, what
    its worker says of it would not be taken, and nobody would see that worker die.
    """
    envelope = request.envelope
    if refused is None or refused.attempt <= envelope.attempt:
        return request
    may_reopen = envelope.reopens
    if may_reopen is None:
        # A failure that its client is told of from now on is none that this row asks about.
        may_reopen = reopens(refused.state, refused.generation)
    return replace(request, envelope=envelope._replace(attempt=refused.attempt, reopens=may_reopen))


class Telling:
    """Tells PENDING for rows of the outbox.

    Args:
        store: where it is told.
        resend_after_s: when the resender first looks at them.
    """

    def __init__(self, store: StatusStore, *, resend_after_s: float) -> None:
        self._store = store
        self._resend_after_s = resend_after_s

    def tell(self, rows: Sequence[WaitingRow]) -> list[Told]:
        """Tell PENDING for each row, and return them with what follows.

        Raises:
            RedisUnavailable: nothing may be sent: what Redis does not know, no resender looks
                after, and a worker that dies with it would leave it lost.
        """
        told: list[Told] = []
        for row, refused in zip(rows, self._write([one.request for one in rows]), strict=True):
            step = step_after(refused)
            if step is Step.LOOK:
                told.append(self._look(row))
            elif isinstance(refused, RedisRefused):
                told.append(Told(row, step, row.request, f"REDIS_REFUSED: {refused}"))
            else:
                reason = MISMATCH if step is Step.PARK else ""
                told.append(Told(row, step, _as_known(row.request, refused), reason))
        return told

    def _write(self, requests: Sequence[Prepared]) -> list[Refused | RedisRefused | None]:
        look_at = epoch_ms() + int(self._resend_after_s * 1000)
        refused: list[Refused | RedisRefused | None] = []
        for batch in batches(pending_write(one, one.payload) for one in requests):
            refused += write_apart(self._store, batch, look_at=look_at)
        return refused

    def _look(self, row: WaitingRow) -> Told:
        """Decide about a request that failed, and that a resend may reopen; rare."""
        status = self._store.read(row.request.request_id)
        if is_own_end(row.request.envelope, row.created_at, status):
            return Told(row, Step.ANSWERED, row.request)
        deadline_at = status.deadline_at or row.request.envelope.deadline_at
        asked = row.request.envelope
        envelope = asked._replace(
            attempt=status.attempt + 1, deadline_at=deadline_at, reopens=status.generation
        )
        again = replace(row.request, envelope=envelope)
        (refused,) = self._write([again])
        step = step_after(refused)
        if step is Step.LOOK:  # somebody else was quicker: it has failed once more
            step = Step.ANSWERED
        return Told(row, step, again, MISMATCH if step is Step.PARK else "")
