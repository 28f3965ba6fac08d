"""When a waiting client sends a request again: a pure decision (contract, sections 4 and 5)."""

from __future__ import annotations

from enum import StrEnum

from feedback.status import FINAL, State

MAX_BACKOFF_FACTOR = 8


class Step(StrEnum):
    """What a waiting client does next."""

    DONE = "done"
    RESEND = "resend"
    WAIT = "wait"


def next_step(state: State, *, since_send_s: float, resends: int, resend_after_s: float) -> Step:
    """Return what to do about a request that is seen in `state`.

    LOST is resent at once: it was committed and never claimed. UNKNOWN is submitted again, since
    Redis may have come back empty. Everything else is resent when nothing final was seen for
    `resend_after_s`, doubling with each resend up to eight times that, so that a handler of
    minutes does not fill its topic with duplicates; the journal answers what is already done.

    Args:
        since_send_s: seconds since this client last sent the request, or began to wait.
        resends: how often this client has already resent it.
    """
    if state in FINAL:
        return Step.DONE
    if state in (State.LOST, State.UNKNOWN):
        # A pause of a tenth keeps a resend that is on its way from being doubled.
        pause_s = 0.0 if resends == 0 else resend_after_s / 10
        return Step.RESEND if since_send_s >= pause_s else Step.WAIT
    factor = min(MAX_BACKOFF_FACTOR, 2**resends)
    return Step.RESEND if since_send_s >= resend_after_s * factor else Step.WAIT
