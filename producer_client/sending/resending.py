"""Decides when a request is sent again, by a waiting client or by the resender. Pure.

See docs: Statuses, How it works.

A waiting client counts on its own clock and knows its own sends. The resender remembers nothing: it
sees a status, and the time since it was written. The writer used a clock of its own; a time in its
future is ignored, and the check that came due decides alone. So a clock that is off costs an early
duplicate, which the journal answers, and never a request. A client that is still sending a request
that a resender takes up cannot take it back, and raises SendUnknown.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum

from feedback.doubling import doubled
from feedback.records.envelope import Envelope
from feedback.status import FINAL, State, may_be_taken_back
from feedback.statuses import Status

MAX_BACKOFF_FACTOR = 8
# After the deadline a worker has to read the request to close it. Where no worker reads its topic,
# resends must not fill the topic: pauses grow with the time since the deadline, up to this.
LONGEST_PAUSE_S = 3600.0
OVERDUE_SHARE = 0.5
OVERDUE_PACE = (0.75, 1.25)


class ClientStep(StrEnum):
    """The next step of a waiting client."""

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
) -> ClientStep:
    """Return the next step for a request that is seen in `state`.

    LOST is resent at once: it was committed and never claimed. UNKNOWN is submitted again, since
    Redis may have come back empty. Any other state is resent when nothing final was seen for
    `resend_after_s`. That doubles with each resend up to eight times, so that a handler of minutes
    does not fill its topic with duplicates. The journal answers requests that are already done.

    Args:
        since_send_s: seconds since this client last sent the request, or began to wait.
        resends: how often this client has already resent it.
        has_failed: whether an earlier resend failed; a request that was LOST before it still is.
    """
    if state in FINAL:
        return ClientStep.DONE
    if state in (State.LOST, State.UNKNOWN):
        # A tenth of the time keeps a resend that is under way from being doubled, and one that
        # fails at once from being tried without end.
        pause_s = resend_after_s / 10 if resends or has_failed else 0.0
        return ClientStep.RESEND if since_send_s >= pause_s else ClientStep.WAIT
    pause_s = doubled(resend_after_s, resend_after_s * MAX_BACKOFF_FACTOR, resends + 1)
    return ClientStep.RESEND if since_send_s >= pause_s else ClientStep.WAIT


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """The facts that the resender sees of a due request.

    Attributes:
        attempt: of the last sending in its status.
        since_told_s: since the status was written, by Redis' clock; negative when the clock was set
            back.
        left_s: until the deadline, negative after it; None without one.
        due_in_s: for RETRYING: until the next run.
        draw: 0 to 1; see `draw_of`.
        is_unfinished: a resender began with it, and was killed or could not send it.
        is_from_before: PENDING was written before Redis was started, or before another one was
            promoted.
        is_asked_anew: it has failed before, and its client asked for it again.
    """

    state: State
    attempt: int
    since_told_s: float
    left_s: float | None
    due_in_s: float | None
    draw: float
    is_unfinished: bool = False
    is_from_before: bool = False
    is_asked_anew: bool = False


class ResendReason(StrEnum):
    """Why a request is sent again."""

    LOST = "lost"
    UNKNOWN = "unknown"
    SILENT = "silent"
    OVERDUE = "overdue"


@dataclass(frozen=True, slots=True)
class Resend:
    """Send it again now."""

    why: ResendReason


@dataclass(frozen=True, slots=True)
class Later:
    """Look again in so many seconds."""

    look_s: float


@dataclass(frozen=True, slots=True)
class Ended:
    """Nobody needs to look at it any more."""


@dataclass(frozen=True, slots=True)
class SearchFirst:
    """Find out whether Kafka has its record, and look again in so many seconds."""

    look_s: float


ResendDecision = Resend | Later | Ended | SearchFirst


def decide(seen: SeenRequest, *, resend_after_s: float) -> ResendDecision:
    """Return the resender's decision about a request whose check is due.

    LOST and UNKNOWN are sent at once. A request that has ended is left alone. So is a FAILED that a
    resend may help: its client knows of it, and may have asked for the same under another id since.
    An open request is sent when its status is as old as `resend_pause_s` says. It is also sent when
    a resend was begun: PENDING may have been written, and nothing sent.

    A PENDING from before Redis came back, which no worker has accepted, may have been taken back: a
    replica or a snapshot has older data, and its client got `NotSent`. Kafka tells: where it has
    the record of this sending, nobody got `NotSent`, and the request is sent. Where it has none,
    the request is left alone, and searched for at longer and longer intervals: a client may still
    be sending it, or hold it in an open transaction. A client that waits with its handle sends it
    again, and a record that Kafka has is read. (The script in Redis refuses a wait that only knows
    the id.) An hour after its deadline, more than any clock is off, it is sent: it can only expire,
    and so ends.
    """
    is_past = seen.left_s is not None and seen.left_s <= 0
    wait_s = _wait_s(seen, resend_after_s)
    if seen.state in FINAL:
        return Ended()
    if seen.state is State.LOST:
        return Resend(ResendReason.LOST)
    if seen.state is State.UNKNOWN:
        return Resend(ResendReason.UNKNOWN)
    if seen.is_from_before and may_be_taken_back(
        seen.state, seen.attempt, is_asked_anew=seen.is_asked_anew, left_s=seen.left_s
    ):
        return _search(seen, wait_s, resend_after_s)
    why = ResendReason.OVERDUE if is_past else ResendReason.SILENT
    if seen.is_unfinished and seen.state is State.PENDING:
        return Resend(why)
    if is_past:
        return _when_due(seen, wait_s, why)
    if seen.state is State.RETRYING and seen.due_in_s is not None and seen.due_in_s > 0:
        longest_s = resend_after_s * MAX_BACKOFF_FACTOR
        return Later(min(seen.due_in_s + resend_after_s, longest_s))
    return _when_due(seen, wait_s, why)


def _search(seen: SeenRequest, wait_s: float, resend_after_s: float) -> SearchFirst | Later:
    if 0 <= seen.since_told_s < wait_s and not seen.is_unfinished:
        return Later(wait_s - seen.since_told_s)
    return SearchFirst(max(resend_after_s, min(seen.since_told_s, LONGEST_PAUSE_S)))


def _when_due(seen: SeenRequest, wait_s: float, why: ResendReason) -> ResendDecision:
    if 0 <= seen.since_told_s < wait_s:
        return Later(wait_s - seen.since_told_s)
    return Resend(why)


def _wait_s(seen: SeenRequest, resend_after_s: float) -> float:
    past_s = None
    if seen.left_s is not None and seen.left_s <= 0:
        # The time past when its status was last written: a pause that has begun grows no more.
        past_s = max(0.0, -seen.left_s - max(0.0, seen.since_told_s))
    return resend_pause_s(seen.attempt, seen.draw, resend_after_s=resend_after_s, past_s=past_s)


def resend_pause_s(
    attempt: int, draw: float, *, resend_after_s: float, past_s: float | None
) -> float:
    """Return how long after the sending of `attempt` the next one comes at the earliest.

    Before the deadline: exponential back-off with full jitter, between `resend_after_s` and that
    doubled with each resend, at most eight times. After it: about `resend_after_s`, and later about
    half of the time since the deadline, to an hour at most.

    Args:
        past_s: seconds since the deadline; None before it.
    """
    if past_s is None:
        high = doubled(1.0, MAX_BACKOFF_FACTOR, max(1, attempt))
        return resend_after_s * (1.0 + draw * (high - 1.0))
    low, high = OVERDUE_PACE
    longest_s = max(resend_after_s, LONGEST_PAUSE_S / high)
    pace_s = min(longest_s, max(resend_after_s, past_s * OVERDUE_SHARE))
    return pace_s * (low + draw * (high - low))


def reopens(state: State, generation: int) -> int:
    """Return the highest generation whose failure may be reopened by a resend in this state.

    That is a failure that the sender sees and asks to run again. Or an earlier sender saw it, where
    the request is on its way again and not yet claimed. It is never the failure of a run that goes
    on: its client may have asked for the same under another id by the time the resend is read.
    """
    has_run_since = state in (State.RUNNING, State.RETRYING)
    return max(0, generation - 1) if has_run_since else generation


def is_own_end(asked: Envelope, written_at: int, failure: Status) -> bool:
    """Whether an outbox row does not ask about a failure that a resend may reopen.

    The relay decides by it, and so does the wait of the row's handle.

    The failure may be the result of this very sending: a relay that sends a row again must not run
    it again. Or it was written after the row: the caller has not asked for another run, and may
    have asked for the same under another id since. A caller who wants another run writes a new row,
    with a deadline of its own.

    The two times come from two clocks. If the database's is ahead of Redis', a failure that is
    written within that time after the row passes for an earlier one.

    Args:
        asked: as the row was written.
        written_at: epoch ms by the database's clock.
    """
    if asked.reopens is not None and asked.reopens < failure.generation:
        return True
    if asked.reopens is None and written_at <= (failure.updated_at or 0):
        return True
    return failure.attempt >= asked.attempt and failure.deadline_at == asked.deadline_at


def draw_of(request_id: str, attempt: int) -> float:
    """Return a number from 0 to 1, the same for a sending wherever it is computed.

    So all resenders agree on when the next one is due, and a killed one takes no draw with it.
    """
    digest = hashlib.blake2b(f"{request_id}\0{attempt}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64
