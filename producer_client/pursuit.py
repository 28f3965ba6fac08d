"""One request that is waited for: when to send it again, and when the wait is over. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from feedback.errors import WaitTimeout
from feedback.kept import KeptPayload
from feedback.status import FINAL, State
from feedback.statuses import Status
from producer_client.resending import Step, next_step


@dataclass(slots=True)
class Pursuit:
    """One request that is waited for.

    Attributes:
        payload: what a resend needs; None: what is kept in Redis.
        deadline_at: epoch ms, should its status be gone.
        last_send_s: monotonic time of the last sending, or of the beginning of the wait.
        is_resending: a resend is under way.
        has_failed: one was under way before, and came to nothing.
        fault: what a resend ended with that ends the wait.
    """

    request_id: str
    payload: KeptPayload | None
    deadline_at: int | None
    last_send_s: float
    resends: int = 0
    is_resending: bool = False
    has_failed: bool = False
    fault: BaseException | None = None

    def begins_resend(self, status: Status, *, now_s: float, resend_after_s: float) -> bool:
        """Say whether to send it again now; if so, a resend is under way until `ended_resend`.

        Raises:
            BaseException: what an earlier resend ended with, if that was no outage.
        """
        if self.fault is not None:
            raise self.fault
        if self.is_resending:
            return False
        step = next_step(
            status.state,
            since_send_s=now_s - self.last_send_s,
            resends=self.resends,
            resend_after_s=resend_after_s,
            has_failed=self.has_failed,
        )
        self.is_resending = step is Step.RESEND
        return self.is_resending

    def ended_resend(self, *, now_s: float, is_sent: bool) -> None:
        """Note that no resend is under way any more."""
        self.last_send_s = now_s
        self.resends += is_sent
        self.has_failed = not is_sent
        self.is_resending = False


def end_of(
    request_id: str, status: Status | None, *, began_s: float, now_s: float, left_s: float | None
) -> Status | None:
    """Return the final status, or None while the wait goes on.

    Args:
        status: the last that was seen, None when Redis did not answer.
        left_s: what is left of the wait, None for no end.

    Raises:
        WaitTimeout: nothing is left of it.
    """
    if status is not None and status.state in FINAL:
        return status
    if left_s == 0:
        state = State.UNKNOWN if status is None else status.state
        raise WaitTimeout(request_id, state, now_s - began_s)
    return None


def seconds_left(began_s: float, timeout_s: float | None, *, now_s: float) -> float | None:
    """Return what is left of a wait, None for no end."""
    return None if timeout_s is None else max(0.0, began_s + timeout_s - now_s)
