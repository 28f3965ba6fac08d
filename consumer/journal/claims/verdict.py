"""The rules of claims and finishes, as pure functions of the row and the database's clock.

A decision of this rule is carried out by a statement that checks generation and state again, on a
row that is locked when it is about to change: a row is never overwritten on a guess.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from consumer.journal.records import (
    CLAIMED_TWICE,
    Claim,
    Finish,
    FinishKind,
    JournalState,
    KeyHolder,
    OwnRun,
    Refusal,
    Row,
    Takeover,
    VerdictKind,
)
from feedback.status import DISOWNED


class ClaimAction(StrEnum):
    INSERT = "INSERT"  # a new row; the insert itself decides whether it is too late
    REOPEN = "REOPEN"  # generation + 1 on a failure that a resend may help
    RETRY = "RETRY"  # generation + 1 on a failure whose next run is due
    EXPIRE = "EXPIRE"  # it waited for its next run, and its time is over
    CLOSE = "CLOSE"  # a failure that a resend could help, and its time is over
    ANSWER = "ANSWER"  # nothing is written


@dataclass(frozen=True, slots=True)
class ClaimDecision:
    """The action on a claim, the verdict once it is done, and why."""

    step: ClaimAction
    kind: VerdictKind
    reason: str


INSERT = ClaimDecision(ClaimAction.INSERT, VerdictKind.RUN, "first claim")
REOPEN = ClaimDecision(ClaimAction.REOPEN, VerdictKind.RUN, "reopened by a resend")
RETRY = ClaimDecision(ClaimAction.RETRY, VerdictKind.RUN, "its next run is due")
EXPIRE = ClaimDecision(
    ClaimAction.EXPIRE, VerdictKind.EXPIRED, "the deadline was over before its next run"
)
GONE = ClaimDecision(ClaimAction.ANSWER, VerdictKind.ANSWERED, "there is nothing to wake up")
EXPIRED = ClaimDecision(
    ClaimAction.ANSWER, VerdictKind.EXPIRED, "the deadline was over before the claim"
)
FORGOTTEN = ClaimDecision(
    ClaimAction.ANSWER,
    VerdictKind.IN_DOUBT,
    "its outcome may have been pruned before this was read",
)
HELD = ClaimDecision(ClaimAction.ANSWER, VerdictKind.HELD, "another request of its key goes first")
_MISMATCH = ClaimDecision(
    ClaimAction.ANSWER, VerdictKind.MISMATCH, "the id belongs to another payload, or topic"
)
_MINE = ClaimDecision(
    ClaimAction.ANSWER, VerdictKind.RUN, "claimed by an earlier try of unknown outcome"
)
IN_HAND = ClaimDecision(
    ClaimAction.ANSWER, VerdictKind.RUNNING, "this worker runs it, or has run it"
)
_ELSEWHERE = ClaimDecision(ClaimAction.ANSWER, VerdictKind.RUNNING, "another worker runs it")
_RETRYING = ClaimDecision(ClaimAction.ANSWER, VerdictKind.RETRYING, "it waits for its next run")
_IN_DOUBT = ClaimDecision(
    ClaimAction.ANSWER, VerdictKind.IN_DOUBT, "nobody knows whether it happened"
)
_ANSWERED = ClaimDecision(ClaimAction.ANSWER, VerdictKind.ANSWERED, "it has ended")
_OLD_ATTEMPT = ClaimDecision(
    ClaimAction.ANSWER, VerdictKind.ANSWERED, "a record of an attempt that has ended"
)
_NOT_ASKED = ClaimDecision(
    ClaimAction.ANSWER,
    VerdictKind.ANSWERED,
    "it was sent before its client was told of this failure",
)
CLOSE = ClaimDecision(ClaimAction.CLOSE, VerdictKind.ANSWERED, "a resend after the deadline")
_ACTED = (JournalState.SUCCEEDED, JournalState.IN_DOUBT)
_GOES_ON = (JournalState.CLAIMED, JournalState.RETRYING)


def decide(
    claim: Claim,
    row: Row | None,
    now: int,
    *,
    worker_id: str,
    held: Collection[tuple[str, int]],
    tried: Collection[str],
) -> ClaimDecision:
    """Return the action on the row of a claim (docs: The guarantee, How it works).

    Args:
        held: (request_id, generation) of runs that this worker has in a child, in a waiting finish
            or in a batch whose outcome it knows: such a claim is not granted a second time. Nor is
            a run begun beside one whose own claim the database has lost.
        tried: the requests of which a claim of this worker may be written that was never
            dispatched. Any other claim of its own is of a run that has ended here: the database
            has lost how.
    """
    if row is None:
        if claim.wakes:
            return GONE
        return IN_HAND if _is_ahead(held, claim.request_id, 0) else INSERT
    if not is_same_request(claim, row):
        return _MISMATCH
    if _is_ahead(held, row.request_id, row.generation):
        return IN_HAND
    match JournalState(row.state):
        case JournalState.CLAIMED:
            if row.owner != worker_id or (claim.wakes and row.generation != claim.wakes + 1):
                return _ELSEWHERE
            is_in_hand = (row.request_id, row.generation) in held
            if is_in_hand or row.request_id not in tried:
                return IN_HAND
            return _MINE
        case JournalState.RETRYING:
            return _of_retrying(claim, row, now)
        case JournalState.IN_DOUBT:
            return _IN_DOUBT
        case JournalState.FAILED if row.resend and not claim.wakes:
            if claim.reopens is not None and claim.reopens < row.generation:
                return _NOT_ASKED
            return _of_failed(claim.attempt, row, now)
        case _:
            return _ANSWERED


def is_same_request(one: Claim | Refusal | Takeover, row: Row) -> bool:
    """Whether a record, or a run, is of the request that has its id: the same payload and topic.

    A retry, a redrive and a takeover name the topic that they came from first.
    """
    return (row.payload_sha256, row.topic) == (one.payload_sha256, one.topic)


def _is_ahead(held: Collection[tuple[str, int]], request_id: str, generation: int) -> bool:
    """Whether this worker has a later run of a request in hand than the journal knows of."""
    return any(name == request_id and run > generation for name, run in held)


def is_claimed_anew(row: Row, claimed_at: int | None, worker_id: str) -> bool:
    """Whether another worker has claimed the generation of a run of ours, whose claim is lost.

    Then there are two runs of that generation, and an end of one says nothing of the other. A
    worker that asks about our run has taken its very claim over.

    Args:
        row: of that generation.
        claimed_at: of the claim of our run.
    """
    if row.owner.removesuffix(DISOWNED) == worker_id:
        return False
    if row.claimed_at is None:
        return row.state == JournalState.CLAIMED
    return row.claimed_at != claimed_at


def _outweighs(state: str, row: Row) -> bool:
    """Whether the end of a run stands above the row of another run of its generation.

    Where it may have acted, and the other one may still say that nothing came of the request. Of a
    run that left nothing, the other one's end says all. A doubt about the other run is resolved by
    the end of that one; one about both is not.
    """
    if state not in _ACTED:
        return False
    if row.state == JournalState.IN_DOUBT:
        return state == JournalState.SUCCEEDED or row.code != CLAIMED_TWICE
    return row.state in _GOES_ON


def is_lost(one: OwnRun, row: Row | None, worker_id: str) -> bool:
    """Whether the database has lost a run of ours, the mark of its effect, or how it ended.

    Not where the row is of another payload or topic: then it is another request.

    Args:
        one: a run that this worker had, and whose claim was committed.
    """
    if row is None:
        return True
    if not is_same_request(one.claim, row) or row.generation > one.generation:
        return False
    if row.generation == one.generation and is_claimed_anew(row, one.claim.claimed_at, worker_id):
        if one.finish is None:
            return may_have_acted(one) and _outweighs(JournalState.IN_DOUBT, row)
        return _outweighs(one.finish.state, row)
    if row.is_forgotten and one.may_be_followed:
        # A later run may have been forgotten with this one.
        return False
    if row.knows_of_no_claim and may_have_acted(one):
        # Whoever ended the request found no trace of our claim.
        return True
    if row.generation < one.generation:
        return one.finish is not None or leads_on(row, one)
    if one.finish is None:
        # The mark of its effect: without it a peer would take the run for one that left nothing.
        return one.entered and row.state == JournalState.CLAIMED and row.effect_at is None
    if row.state == one.finish.state:
        return False
    # A doubt that a sweep wrote about a run of which we know the end.
    return row.state in (JournalState.CLAIMED, JournalState.IN_DOUBT)


def may_have_acted(one: OwnRun) -> bool:
    """Whether the effect of a run, or of one that it follows, has happened, or may have."""
    if one.finish is not None:
        return one.finish.state in _ACTED
    return one.entered or (one.is_begun and one.claim.effect_kind == "external")


def gives_way(one: OwnRun, row: Row | None, worker_id: str) -> bool:
    """Whether a run that no child took is not written over the earlier run that stands there.

    Another worker has that one, and may be at its effect. A run of our own is over where we were
    granted a later one. After a failure the claim itself makes the same run once more, and waits
    for another request of its key, which may have begun since.
    """
    if one.is_begun or row is None:
        return False
    if row.state == JournalState.FAILED:
        is_next = row.generation + 1 == one.generation and row.voids == one.claim.voids
        return row.resend and is_next
    return row.state == JournalState.CLAIMED and row.owner != worker_id


def leads_on(row: Row, one: OwnRun) -> bool:
    """Whether a later run may still follow the one that stands there: it has not ended for good.

    Else its client was told so, and a run in spite of it is not let into its effect.
    """
    if row.state == JournalState.FAILED:
        return row.resend and one.claim.attempt > row.attempt
    return row.state in (JournalState.CLAIMED, JournalState.RETRYING)


def decide_refusal(refusal: Refusal, row: Row, now: int) -> ClaimAction:
    """Return the action of a refusal on the row that stands under its id.

    REOPEN: the record is the resend, or the redrive, that a failure waited for. It has its try by
    being refused, which is how the request has failed now: nothing else may come of that attempt.
    """
    if not (is_same_request(refusal, row) and row.state == JournalState.FAILED and row.resend):
        return ClaimAction.ANSWER
    if refusal.reopens is not None and refusal.reopens < row.generation:
        # Its client has been told of that failure since, and may have asked anew.
        return ClaimAction.ANSWER
    return _of_failed(refusal.attempt, row, now).step


def in_order(decision: ClaimDecision, holder: KeyHolder | None) -> ClaimDecision:
    """Return the decision about a request whose key another one may hold.

    A retry holds its key too, so another retry of the key does not hold it up: each would wait for
    the other.
    """
    if holder is None:
        return decision
    starts = decision.step in (ClaimAction.INSERT, ClaimAction.REOPEN)
    goes_on = decision.step is ClaimAction.RETRY and holder.is_running
    return HELD if starts or goes_on else decision


def _of_retrying(claim: Claim, row: Row, now: int) -> ClaimDecision:
    # Whoever comes after the deadline closes it, or nobody might.
    if now >= row.deadline_at:
        return EXPIRE
    is_due = row.due_at is None or now >= row.due_at
    return RETRY if is_due and claim.wakes == row.generation else _RETRYING


def _of_failed(attempt: int, row: Row, now: int) -> ClaimDecision:
    # A resend keeps the deadline, so the row's is the one that counts.
    if attempt <= row.attempt:
        return _OLD_ATTEMPT
    return REOPEN if now < row.deadline_at else CLOSE


def decide_finish(finish: Finish, row: Row | None, worker_id: str) -> FinishKind:
    """Return the result of a finish that found no claim of this worker and its generation.

    WRITTEN over a claim: another worker asks about this very run. Else WRITTEN means that it
    resolves the doubt about its own run (docs: Tables), as `resolution` says. A doubt is only ever
    resolved as succeeded or failed. LOST: it is to be written again as a lost run is.
    """
    if row is None:
        return FinishKind.LOST
    if finish.claim is not None and not is_same_request(finish.claim, row):
        return FinishKind.STALE
    if row.generation < finish.generation:
        return FinishKind.LOST
    if row.generation > finish.generation:
        return FinishKind.STALE
    if row.state == finish.state and row.owner == worker_id:
        return FinishKind.ALREADY
    if is_claimed_anew(row, finish.claimed_at, worker_id):
        return FinishKind.LOST if _outweighs(finish.state, row) else FinishKind.STALE
    if row.state == JournalState.CLAIMED:
        return FinishKind.WRITTEN
    if row.knows_of_no_claim and finish.state in _ACTED:
        # The claim of this run was lost, and its request ended by a worker that knew of none.
        return FinishKind.LOST
    resolves = resolution(finish).state in (JournalState.SUCCEEDED, JournalState.FAILED)
    if row.code == CLAIMED_TWICE:
        # That nothing came of one run says nothing of the other.
        resolves = finish.state == JournalState.SUCCEEDED
    if row.state == JournalState.IN_DOUBT and resolves:
        return FinishKind.WRITTEN
    return FinishKind.STALE


def resolution(finish: Finish) -> Finish:
    """Return how a doubt ends about a run that has ended like this after all.

    A run that was not to run at all has failed, and nothing happened: a doubt has only two ends
    (docs: Statuses). So has one that was to be followed by another. But no doubt is ever
    reopened (docs: The guarantee): the next run is a resend's, where that may help.
    """
    if finish.state == JournalState.SKIPPED:
        return finish._replace(state=JournalState.FAILED.value)
    if finish.state != JournalState.RETRYING:
        return finish
    return finish._replace(
        state=JournalState.FAILED.value, resend=finish.resend_if_late, delay_ms=None
    )
