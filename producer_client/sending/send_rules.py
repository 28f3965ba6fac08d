"""The rules of a send: the status before it, its attempt, and the caller's error. Pure."""

from __future__ import annotations

from dataclasses import replace

from feedback.errors import NotSent, OncewardError, PayloadMismatch, SendUnknown
from feedback.records.envelope import Envelope
from feedback.records.stored_payload import StoredPayload
from feedback.settings.settings import ClientSection
from feedback.status import FINAL, RefusalReason, State
from feedback.statuses import Refused, Replaced, Status, StatusWrite
from producer_client.sending.resending import reopens
from producer_client.submission import Prepared


def certain(one: Prepared, error: NotSent | SendUnknown | None) -> NotSent | SendUnknown | None:
    """Return the caller's error: NotSent only where nobody can have sent the request before.

    A caller who gets it asks again under another id.
    """
    if not isinstance(error, NotSent) or one.is_new:
        return error
    return made_unknown(error, f"{error.reason}; and it may have been sent before")


def made_unknown(error: NotSent, reason: str) -> SendUnknown:
    """Return the error as a send of unknown outcome, with the same cause."""
    unknown = SendUnknown(error.request_id, reason).because(error.fault)
    unknown.__cause__ = error.__cause__
    return unknown


def error_of(error: NotSent | SendUnknown, one: Prepared) -> NotSent | SendUnknown:
    """Return the same error of another request of the batch."""
    same = type(error)(one.request_id, error.reason).because(error.fault)
    same.__cause__ = error.__cause__
    return same


def first_look_s(section: ClientSection) -> float:
    """Return when a resender first checks a request.

    That is not while its client still sends it, or takes its PENDING back, which Redis may delay
    once more.
    """
    return max(section.resend_after_s, section.send_timeout_s * 1.5)


def pending_write(one: Prepared, payload: StoredPayload | None) -> StatusWrite:
    """Return the status to write before a request is sent.

    Args:
        payload: to store for resends; None where it is stored already. Then the earlier status has
            to stand there still: the sender may have slept since it read that.
    """
    return StatusWrite(
        request_id=one.request_id,
        state=State.PENDING,
        attempt=one.envelope.attempt,
        generation=0,
        payload_sha256=one.payload_sha256,
        fields={"deadline_at": str(one.envelope.deadline_at), "topic": one.payload.topic},
        payload=payload,
        reopens=one.envelope.reopens,
        follows=None if payload is not None else one.envelope.attempt - 1,
    )


def told_request(one: Prepared, answer: Replaced | None) -> Prepared:
    """Return a request whose PENDING stands in Redis, instead of the status in `answer`."""
    return replace(one, is_told=True, replaced=answer)


def is_over_earlier(one: Prepared) -> bool:
    """Whether there is a status to restore: without one, a resend is the only trace."""
    return one.envelope.attempt > 1 and one.replaced is not None


def next_envelope(request_id: str, known: Status, deadline_at: int | None) -> Envelope:
    """Return the envelope of the attempt after the known one."""
    may_reopen = reopens(known.state, known.generation) if known.attempt else None
    return Envelope(request_id, known.attempt + 1, deadline_at, may_reopen, known.first_place)


def as_resend(one: Prepared, known: Status | None) -> Prepared:
    """Return a request as the next attempt of the known one, or as new where none is known."""
    if known is None or known.state is State.UNKNOWN:
        return replace(one, is_new=True)
    if not _is_same(one, known):
        return one
    deadline_at = known.deadline_at or one.envelope.deadline_at
    envelope = next_envelope(one.request_id, known, deadline_at)
    return Prepared(envelope, one.payload, one.payload_sha256, named_by_caller=True)


def is_answered(one: Prepared, known: Status) -> bool:
    """Whether Kafka has had the same request, and its sender asks for no second run.

    One that is PENDING may yet be taken back, and one that is LOST has to be sent.
    """
    is_taken = known.state not in (State.UNKNOWN, State.PENDING, State.LOST)
    return not one.reopen and is_taken and _is_same(one, known)


def _is_same(one: Prepared, known: Status) -> bool:
    is_elsewhere = known.topic is not None and known.topic != one.payload.topic
    return known.payload_sha256 == one.payload_sha256 and not is_elsewhere


def is_behind_pending(refused: Refused) -> bool:
    """Whether a later attempt stands that may yet be taken back."""
    return refused.reason is RefusalReason.ATTEMPT and refused.state is State.PENDING


def beside(one: Prepared, refused: Refused) -> Prepared:
    """Return a request as the attempt that stands, which is not new any more.

    A caller who has seen no failure asks for none to run again.
    """
    envelope = one.envelope._replace(attempt=refused.attempt, reopens=one.envelope.reopens or 0)
    return replace(one, envelope=envelope, is_new=False)


def after_refusal(one: Prepared, refused: Refused) -> OncewardError | Prepared | None:
    """Return the request to send after a refusal, None where it has ended, or the error."""
    if refused.reason is RefusalReason.PAYLOAD:
        return PayloadMismatch(one.request_id)
    # It runs or is about to: the resend goes out, and the journal answers it. A caller that looked
    # before the other attempt was written took the request for new.
    return None if refused.state in FINAL else replace(one, is_new=False)


def why_not_again(one: Prepared, refused: Refused) -> PayloadMismatch | Refused | None:
    """Return why a resend may not go out after a refusal; None: it may."""
    if refused.reason is RefusalReason.PAYLOAD:
        return PayloadMismatch(one.request_id)
    # Its client was told that it was not sent, or another resend is under way already.
    is_over = refused.state in FINAL or refused.reason is RefusalReason.TAKEN_BACK
    return refused if is_over or refused.attempt > one.envelope.attempt else None
