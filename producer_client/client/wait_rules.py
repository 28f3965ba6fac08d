"""One request under a wait: when to send it again, and when the wait is over. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from feedback.errors import PayloadMismatch, WaitTimeout
from feedback.records.envelope import Envelope, payload_sha256
from feedback.records.stored_payload import StoredPayload
from feedback.status import FINAL, State
from feedback.statuses import Status
from producer_client.sending.resending import ClientStep, is_own_end, next_step


class AnyHandle(Protocol):
    """A handle of either client."""

    @property
    def request_id(self) -> str: ...
    @property
    def payload(self) -> StoredPayload: ...
    @property
    def deadline_at(self) -> int | None: ...
    @property
    def attempt(self) -> int: ...
    @property
    def reopens(self) -> int | None: ...
    @property
    def written_at(self) -> int | None: ...


@dataclass(slots=True)
class WaitedRequest:
    """One request under a wait.

    Attributes:
        payload: for a resend; None: the one stored in Redis.
        deadline_at: epoch ms, used when its status is gone.
        last_send_s: monotonic time of the last sending, or of the beginning of the wait.
        payload_sha256: the fingerprint of its payload; None where only the id is known.
        topic: that it was sent to; None where only the id is known.
        attempt: of its sending; 0 where only the id is known.
        reopens: the generation of the failure that this sending reopened, or an earlier one.
        written_at: when its outbox row was written, in epoch ms by the database's clock; None: it
            was sent.
        is_resending: a resend is under way.
        has_failed: an earlier resend failed.
        fault: the error of a resend that ends the wait.
    """

    request_id: str
    payload: StoredPayload | None
    deadline_at: int | None
    last_send_s: float
    payload_sha256: str | None = None
    topic: str | None = None
    attempt: int = 0
    reopens: int | None = None
    written_at: int | None = None
    resends: int = 0
    is_resending: bool = False
    has_failed: bool = False
    fault: BaseException | None = None

    @classmethod
    def of(cls, request: AnyHandle | str, *, now_s: float) -> WaitedRequest:
        """Return a waited that begins now, of a handle or of an id."""
        if isinstance(request, str):
            return cls(request, None, None, now_s)
        # Until a relay has sent it, no wait may send it.
        payload = request.payload if request.written_at is None else None
        digest = sha256_of(request.payload)
        return cls(
            request.request_id,
            payload,
            request.deadline_at,
            now_s,
            digest,
            request.payload.topic,
            attempt=request.attempt,
            reopens=request.reopens,
            written_at=request.written_at,
        )

    def is_open(self, status: Status) -> bool:
        """Whether its end is still to come.

        That is so when nothing is final. It is also so at a failure that this sending reopened, or
        that its outbox row will reopen.
        """
        return status.state not in FINAL or self._has_reopened(status) or self._will_reopen(status)

    def _has_reopened(self, status: Status) -> bool:
        """Whether Redis came back with older data: a failure that this sending reopened."""
        is_earlier = status.attempt < self.attempt
        return _is_failure(status) and is_earlier and status.generation <= (self.reopens or 0)

    def _will_reopen(self, status: Status) -> bool:
        if self.written_at is None or not _is_failure(status):
            return False
        asked = Envelope(self.request_id, self.attempt, self.deadline_at, self.reopens)
        return not is_own_end(asked, self.written_at, status)

    def begins_resend(self, status: Status, *, now_s: float, resend_after_s: float) -> bool:
        """Say whether to send it again now; if so, a resend is under way until `ended_resend`.

        Raises:
            BaseException: the error of an earlier resend, if that was no outage.
        """
        if self.fault is not None:
            raise self.fault
        if self.is_resending:
            return False
        step = next_step(
            State.PENDING if self._has_reopened(status) else status.state,
            since_send_s=now_s - self.last_send_s,
            resends=self.resends,
            resend_after_s=resend_after_s,
            has_failed=self.has_failed,
        )
        self.is_resending = step is ClientStep.RESEND
        return self.is_resending

    def ended_resend(self, *, now_s: float, is_sent: bool) -> None:
        """Note that no resend is under way any more."""
        self.last_send_s = now_s
        self.resends += is_sent
        self.has_failed = not is_sent
        self.is_resending = False


def sha256_of(payload: StoredPayload) -> str:
    """Return the hash that tells a stored payload from others."""
    return payload_sha256(payload.key, payload.value)


def require_own(waited: WaitedRequest, status: Status) -> Status:
    """Return a status, if it is the request's own.

    Raises:
        PayloadMismatch: another payload, or one for another topic, has the id.
    """
    for known, stands in (
        (waited.payload_sha256, status.payload_sha256),
        (waited.topic, status.topic),
    ):
        if known is not None and stands not in (None, known):
            raise PayloadMismatch(status.request_id)
    return status


def shown_by(handle: AnyHandle, status: Status) -> Status:
    """Return the status that a handle shows: never a failure that its sending reopened.

    Raises:
        PayloadMismatch: another request has the id.
    """
    waited = WaitedRequest.of(handle, now_s=0.0)
    own = require_own(waited, status)
    is_asked_anew = own.state in FINAL and waited.is_open(own)
    return Status(own.request_id, State.UNKNOWN) if is_asked_anew else own


def end_of(
    waited: WaitedRequest,
    status: Status | None,
    *,
    began_s: float,
    now_s: float,
    left_s: float | None,
) -> Status | None:
    """Return the final status, or None while the wait goes on.

    Args:
        status: the last one that was read, None when Redis did not answer.
        left_s: the seconds left of the wait, None for no end.

    Raises:
        WaitTimeout: no time is left.
        PayloadMismatch: another request has the id.
    """
    if status is not None:
        require_own(waited, status)
    if status is not None and not waited.is_open(status):
        return status
    if left_s == 0:
        state = State.UNKNOWN if status is None else status.state
        raise WaitTimeout(waited.request_id, state, now_s - began_s)
    return None


def _is_failure(status: Status) -> bool:
    """Whether it failed in a way that a resend reopens."""
    return status.state is State.FAILED and status.resend


def seconds_left(began_s: float, timeout_s: float | None, *, now_s: float) -> float | None:
    """Return the seconds left of a wait, None for no end."""
    return None if timeout_s is None else max(0.0, began_s + timeout_s - now_s)
