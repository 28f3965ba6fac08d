"""When a request is sent again, by a waiting client or by the resender: pure decisions (contract,
sections 4 and 5).

A waiting client counts on its own clock and knows what it did. The resender keeps nothing in
memory: it sees a status, and the time since that was written. Whoever wrote it did so by a clock of
its own; a time in its future is no time at all, and the look that came due decides alone. So a
clock that is off costs an early duplicate, which the journal answers, and never a request.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum

from feedback.status import FINAL, State

MAX_BACKOFF_FACTOR = 8
# After the deadline a worker has to see the request to close it: no longer pauses than this.
OVERDUE_PACE = (0.75, 1.25)


class Step(StrEnum):
    """What a waiting client does next."""

    DONE = "done"
    RESEND = "resend"
    WAIT = "wait"


def next_step(
    state: State,
    *,
    since_send_s: float,
    resends: int,
    resend_after_s: float,
    has_failed: bool = False,
) -> Step:
    """Return what to do about a request that is seen in `state`.

    LOST is resent at once: it was committed and never claimed. UNKNOWN is submitted again, since
    Redis may have come back empty. Everything else is resent when nothing final was seen for
    `resend_after_s`, doubling with each resend up to eight times that, so that a handler of
    minutes does not fill its topic with duplicates; the journal answers what is already done.

    Args:
        since_send_s: seconds since this client last sent the request, or began to wait.
        resends: how often this client has already resent it.
        has_failed: whether it has tried to in vain: what was LOST before that is so after it.
    """
    if state in FINAL:
        return Step.DONE
    if state in (State.LOST, State.UNKNOWN):
        # A pause of a tenth keeps a resend that is on its way from being doubled, and one that
        # fails at once from being tried without end.
        pause_s = resend_after_s / 10 if resends or has_failed else 0.0
        return Step.RESEND if since_send_s >= pause_s else Step.WAIT
    factor = min(MAX_BACKOFF_FACTOR, 2**resends)
    return Step.RESEND if since_send_s >= resend_after_s * factor else Step.WAIT


@dataclass(frozen=True, slots=True)
class Seen:
    """What the resender sees of a request that is due.

    Attributes:
        attempt: of the last sending that was told.
        resend: for FAILED: whether a resend may help.
        since_told_s: since the status was written; negative when its writer's clock is ahead.
        left_s: until the deadline, negative after it; None without one.
        due_in_s: for RETRYING: until the next run.
        draw: 0 to 1; see `draw_of`.
        is_unfinished: a resender began with it, and was killed or could not send it.
    """

    state: State
    attempt: int
    resend: bool
    since_told_s: float
    left_s: float | None
    due_in_s: float | None
    draw: float
    is_unfinished: bool = False


class Why(StrEnum):
    """Why a request is sent again."""

    LOST = "lost"
    UNKNOWN = "unknown"
    SILENT = "silent"
    FAILED = "failed"
    OVERDUE = "overdue"


@dataclass(frozen=True, slots=True)
class Resend:
    """Send it again now."""

    why: Why


@dataclass(frozen=True, slots=True)
class Later:
    """Look again in so many seconds."""

    look_s: float


@dataclass(frozen=True, slots=True)
class Ended:
    """Nobody needs to look at it any more."""


Decision = Resend | Later | Ended


def decide(seen: Seen, *, resend_after_s: float) -> Decision:
    """Return what the resender does about a request whose look is due.

    LOST and UNKNOWN are sent at once. A FAILED that a resend may help is sent until its deadline.
    What is open is sent when nothing was told of it for as long as `pause_s` says, or when a resend
    of it was begun: PENDING may have been told, and nothing sent.
    """
    is_past = seen.left_s is not None and seen.left_s <= 0
    wait_s = pause_s(seen.attempt, seen.draw, resend_after_s=resend_after_s, is_past=is_past)
    if seen.state is State.FAILED and seen.resend and not is_past:
        return _when_due(seen, wait_s, Why.FAILED)
    if seen.state in FINAL:
        return Ended()
    if seen.state is State.LOST:
        return Resend(Why.LOST)
    if seen.state is State.UNKNOWN:
        return Resend(Why.UNKNOWN)
    why = Why.OVERDUE if is_past else Why.SILENT
    if seen.is_unfinished and seen.state is State.PENDING:
        return Resend(why)
    if is_past:
        return _when_due(seen, wait_s, why)
    if seen.state is State.RETRYING and seen.due_in_s is not None and seen.due_in_s > 0:
        longest_s = resend_after_s * MAX_BACKOFF_FACTOR
        return Later(min(seen.due_in_s + resend_after_s, longest_s))
    return _when_due(seen, wait_s, why)


def _when_due(seen: Seen, wait_s: float, why: Why) -> Decision:
    if 0 <= seen.since_told_s < wait_s:
        return Later(wait_s - seen.since_told_s)
    return Resend(why)


def pause_s(attempt: int, draw: float, *, resend_after_s: float, is_past: bool) -> float:
    """Return how long after the sending of `attempt` the next one comes at the earliest.

    Before the deadline: exponential back-off with full jitter, between `resend_after_s` and that
    doubled with each resend, at most eight times. After it: about `resend_after_s`.

    Args:
        is_past: the deadline is over.
    """
    if is_past:
        low, high = OVERDUE_PACE
    else:
        low, high = 1.0, min(MAX_BACKOFF_FACTOR, 2.0 ** min(max(0, attempt - 1), 16))
    return resend_after_s * (low + draw * (high - low))


def draw_of(request_id: str, attempt: int) -> float:
    """Return a number from 0 to 1, the same for a sending wherever it is asked, so that all
    resenders agree on when the next one is due and a killed one takes no draw with it."""
    digest = hashlib.blake2b(f"{request_id}\0{attempt}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64
