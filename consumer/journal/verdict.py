"""The rules of claims and finishes, as pure functions of the row and the database's clock.

What is decided here is carried out by a statement that checks generation and state again, on a row
that is locked when it is about to change: a row is never overwritten on a guess.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from consumer.journal.records import (
    Claim,
    Finish,
    FinishKind,
    Holder,
    Refusal,
    Row,
    State,
    VerdictKind,
)


class Step(StrEnum):
    """What is to be done about a claim."""

    INSERT = "INSERT"  # a new row; the insert itself decides whether it is too late
    REOPEN = "REOPEN"  # generation + 1 on a failure that a resend may help
    RETRY = "RETRY"  # generation + 1 on a failure whose next run is due
    EXPIRE = "EXPIRE"  # it waited for its next run, and its time is over
    CLOSE = "CLOSE"  # a failure that a resend could help, and its time is over
    ANSWER = "ANSWER"  # nothing is written


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done about a claim, the verdict once it is done, and why."""

    step: Step
    kind: VerdictKind
    reason: str


INSERT = Decision(Step.INSERT, VerdictKind.RUN, "first claim")
REOPEN = Decision(Step.REOPEN, VerdictKind.RUN, "reopened by a resend")
RETRY = Decision(Step.RETRY, VerdictKind.RUN, "its next run is due")
EXPIRE = Decision(Step.EXPIRE, VerdictKind.EXPIRED, "the deadline was over before its next run")
GONE = Decision(Step.ANSWER, VerdictKind.ANSWERED, "there is nothing to wake up")
EXPIRED = Decision(Step.ANSWER, VerdictKind.EXPIRED, "the deadline was over before the claim")
HELD = Decision(Step.ANSWER, VerdictKind.HELD, "another request of its key goes first")
_MISMATCH = Decision(Step.ANSWER, VerdictKind.MISMATCH, "the id belongs to another payload")
_MINE = Decision(Step.ANSWER, VerdictKind.RUN, "claimed by an earlier try of unknown outcome")
_HELD = Decision(Step.ANSWER, VerdictKind.RUNNING, "this worker runs it")
_ELSEWHERE = Decision(Step.ANSWER, VerdictKind.RUNNING, "another worker runs it")
_RETRYING = Decision(Step.ANSWER, VerdictKind.RETRYING, "it waits for its next run")
_IN_DOUBT = Decision(Step.ANSWER, VerdictKind.IN_DOUBT, "nobody knows whether it happened")
_ANSWERED = Decision(Step.ANSWER, VerdictKind.ANSWERED, "it has ended")
_OLD_ATTEMPT = Decision(Step.ANSWER, VerdictKind.ANSWERED, "a record of an attempt that has ended")
CLOSE = Decision(Step.CLOSE, VerdictKind.ANSWERED, "a resend after the deadline")


def decide(
    claim: Claim,
    row: Row | None,
    now: int,
    *,
    worker_id: str,
    held: Collection[tuple[str, int]],
) -> Decision:
    """Return what a claim may do to the row of its request (contract, sections 3 and 5).

    Args:
        claim: the wish.
        row: the request as it stands; None when it has no row.
        now: epoch ms of the database's clock.
        worker_id: who wishes.
        held: (request_id, generation) of what this worker has in a child, in a waiting finish or
            in a batch of which it knows the outcome: such a claim is not granted a second time.
    """
    if row is None:
        return GONE if claim.wakes else INSERT
    if row.payload_sha256 != claim.payload_sha256:
        return _MISMATCH
    match State(row.state):
        case State.CLAIMED:
            if row.owner != worker_id or (claim.wakes and row.generation != claim.wakes + 1):
                return _ELSEWHERE
            return _HELD if (row.request_id, row.generation) in held else _MINE
        case State.RETRYING:
            return _of_retrying(claim, row, now)
        case State.IN_DOUBT:
            return _IN_DOUBT
        case State.FAILED if row.resend and not claim.wakes:
            return _of_failed(claim.attempt, row, now)
        case _:
            return _ANSWERED


def decide_refusal(refusal: Refusal, row: Row, now: int) -> Step:
    """Return what the refusal of a record does to a row that stands under its id.

    REOPEN: the record is the resend, or the redrive, that a failure waited for. It has its try by
    being refused, which is how the request has failed now: nothing else may come of that attempt.
    """
    is_same = row.payload_sha256 == refusal.payload_sha256
    if not (is_same and row.state == State.FAILED and row.resend):
        return Step.ANSWER
    return _of_failed(refusal.attempt, row, now).step


def in_order(decision: Decision, holder: Holder | None) -> Decision:
    """Return the decision about a request whose key another one may hold.

    What waits for its next run holds its key too, so one that waits like it does not hold it up:
    each would wait for the other.
    """
    if holder is None:
        return decision
    starts = decision.step in (Step.INSERT, Step.REOPEN)
    goes_on = decision.step is Step.RETRY and holder.is_running
    return HELD if starts or goes_on else decision


def _of_retrying(claim: Claim, row: Row, now: int) -> Decision:
    # Whoever comes after the deadline closes it, or nobody might.
    if now >= row.deadline_at:
        return EXPIRE
    is_due = row.due_at is None or now >= row.due_at
    return RETRY if is_due and claim.wakes == row.generation else _RETRYING


def _of_failed(attempt: int, row: Row, now: int) -> Decision:
    # A resend keeps the deadline, so the row's is the one that counts.
    if attempt <= row.attempt:
        return _OLD_ATTEMPT
    return REOPEN if now < row.deadline_at else CLOSE


def decide_finish(finish: Finish, row: Row | None, worker_id: str) -> FinishKind:
    """Return what becomes of a finish that found no claim of its generation.

    WRITTEN means that it resolves the doubt about its own run (contract, section 8), as
    `resolution` says. A doubt is only ever resolved as succeeded or failed.
    """
    if row is None or row.generation != finish.generation:
        return FinishKind.STALE
    if row.state == finish.state and row.owner == worker_id:
        return FinishKind.ALREADY
    resolves = resolution(finish).state in (State.SUCCEEDED, State.FAILED)
    if row.state == State.IN_DOUBT and resolves:
        return FinishKind.WRITTEN
    return FinishKind.STALE


def resolution(finish: Finish) -> Finish:
    """Return how a doubt ends about a run that has ended like this after all.

    A run that was not to run at all has failed, and nothing happened: a doubt has only two ends
    (contract, section 4). So has one that was to be followed by another. But no doubt is ever
    reopened (contract, section 3): the next run is a resend's, where that may help.
    """
    if finish.state == State.SKIPPED:
        return finish._replace(state=State.FAILED.value)
    if finish.state != State.RETRYING:
        return finish
    return finish._replace(state=State.FAILED.value, resend=finish.resend_if_late, delay_ms=None)
