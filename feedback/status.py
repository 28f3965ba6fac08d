"""The status rule: which write may follow which, as one table (docs: Statuses).

Theory of operation. Clients write PENDING, workers write ACCEPTED on receipt, and workers repeat
the journal's rows (RUNNING and everything after). Writers race, and a write may be late, so the
rule looks at four facts in this order: payload, generation, attempt, state. Three things bite the
next editor:

- A write without a generation (PENDING, ACCEPTED) counts as generation 0: it never overwrites a
  status that a claim has written. The exception is a FAILED with `resend` that its sender has read.
- An older attempt may still bring the final outcome, since the journal has one row per request.
- A final status never changes, but for an IN_DOUBT that is resolved and a FAILED that is reopened.

`feedback/redis/status_script.py` generates a Lua script for Redis from the same table; tests
compare the two exhaustively.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """A request's state as a client sees it; LOST and UNKNOWN are derived, never stored."""

    PENDING = "PENDING"
    ACCEPTED = "ACCEPTED"
    RUNNING = "RUNNING"
    RETRYING = "RETRYING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    IN_DOUBT = "IN_DOUBT"
    EXPIRED = "EXPIRED"
    SKIPPED = "SKIPPED"
    LOST = "LOST"
    UNKNOWN = "UNKNOWN"

    @property
    def is_final(self) -> bool:
        """Whether the request has ended: it does not run again by itself."""
        return self in FINAL


STORED = tuple(state for state in State if state not in (State.LOST, State.UNKNOWN))
FINAL = frozenset({State.SUCCEEDED, State.FAILED, State.IN_DOUBT, State.EXPIRED, State.SKIPPED})
# Written before a claim, so they carry no generation.
BEFORE_CLAIM = frozenset({State.PENDING, State.ACCEPTED})

# The suffix of a worker's id where that worker has a request, or a claim, no more.
DISOWNED = "-disowned"

# We assume that no two clocks differ by more.
CLOCKS_APART_S = 3600

_AFTER_CLAIM = frozenset(STORED) - BEFORE_CLAIM

FOLLOWERS: dict[State, frozenset[State]] = {
    # state: the states that may follow it within the same generation and attempt
    State.PENDING: frozenset(STORED),
    State.ACCEPTED: frozenset(STORED) - {State.PENDING},
    State.RUNNING: _AFTER_CLAIM,
    State.RETRYING: _AFTER_CLAIM - {State.RUNNING},
    State.SUCCEEDED: frozenset({State.SUCCEEDED}),
    State.FAILED: frozenset({State.FAILED}),
    State.IN_DOUBT: frozenset({State.IN_DOUBT, State.SUCCEEDED, State.FAILED}),
    State.EXPIRED: frozenset({State.EXPIRED}),
    State.SKIPPED: frozenset({State.SKIPPED}),
}
NEWER_GENERATION: dict[State, frozenset[State]] = {
    # state: the states of a higher generation that may overwrite it. It may be any open state, a
    # FAILED that was reopened, or an IN_DOUBT whose resolution never reached Redis: an IN_DOUBT is
    # followed by its resolution, never by an open state.
    State.PENDING: _AFTER_CLAIM,
    State.ACCEPTED: _AFTER_CLAIM,
    State.RUNNING: _AFTER_CLAIM,
    State.RETRYING: _AFTER_CLAIM,
    State.FAILED: _AFTER_CLAIM,
    State.IN_DOUBT: frozenset({State.IN_DOUBT, State.SUCCEEDED, State.FAILED}),
}


class RefusalReason(StrEnum):
    """The reason why the rule refused a write."""

    PAYLOAD = "payload"
    GENERATION = "generation"
    ATTEMPT = "attempt"
    STATE = "state"
    WORKER = "worker"
    TAKEN_BACK = "taken_back"


@dataclass(frozen=True, slots=True)
class StoredFacts:
    """The facts of a stored status that the rule looks at.

    Attributes:
        generation: 0 before a claim was written.
        resend: a FAILED that a higher attempt may reopen.
        worker: the worker that holds the request; empty for none.
        topic: the request's topic; empty when not known.
    """

    state: State
    attempt: int
    generation: int
    payload_sha256: str
    resend: bool = False
    worker: str = ""
    topic: str = ""


@dataclass(frozen=True, slots=True)
class WriteFacts:
    """The facts of a write that the rule looks at.

    Attributes:
        restore: the journal's own row is written over another request's status (a mismatch
            verdict; docs: Statuses).
        held_by: take the write only while the stored status names this worker. A worker that
            gives a request up must not clear the name of the next owner. None: any worker.
        reopens: before a claim: the highest generation whose failure the write may reopen. A
            sending that was under way must not reopen a later failure that its client has read.
            None: any.
        topic: the request's topic; empty: any.
        follows: before a claim: the attempt that the writer has read; the stored attempt must not
            be lower. If the status was removed since, its client has been told `NotSent`, and
            nobody may send the request. 0: the writer found no status but a stored payload, and
            both must still hold: a status written since belongs to another sender. None: any.
    """

    state: State
    attempt: int
    generation: int
    payload_sha256: str
    restore: bool = False
    held_by: str | None = None
    reopens: int | None = None
    topic: str = ""
    follows: int | None = None


def may_be_taken_back(
    state: State, attempt: int, *, is_asked_anew: bool, left_s: float | None
) -> bool:
    """Whether a PENDING of another start of Redis may have been taken back since.

    Its client may then have been told `NotSent`. This concerns the first PENDING of a request, or
    of a failed one that was submitted again. Long after the deadline a resend harms nobody: the
    request can only expire.

    Args:
        state: the stored state.
        attempt: the stored attempt.
        is_asked_anew: the request had failed, and its client submitted it again.
        left_s: seconds until the deadline, negative after it; None without one.
    """
    is_first = attempt <= 1 or is_asked_anew
    may_run = left_s is None or left_s > -CLOCKS_APART_S
    return state is State.PENDING and is_first and may_run


def is_other_request(stored: StoredFacts, write: WriteFacts) -> bool:
    """Whether two requests share the id: another payload, or another topic of the group."""
    is_elsewhere = "" != stored.topic != write.topic != ""
    return write.payload_sha256 != stored.payload_sha256 or is_elsewhere


def judge(
    stored: StoredFacts | None, write: WriteFacts, *, is_kept: bool = False
) -> RefusalReason | None:
    """Return None when the write may be taken, else the reason (docs: Statuses).

    Args:
        stored: the stored status; None without one.
        write: the write to judge.
        is_kept: the payload is stored although there is no status.
    """
    if stored is None:
        is_there = write.follows is None or (write.follows == 0 and is_kept)
        return None if is_there else RefusalReason.TAKEN_BACK
    if write.held_by is not None and write.held_by != stored.worker:
        return RefusalReason.WORKER
    if is_other_request(stored, write):
        # Another request under this id: only the journal's own row may put it right.
        return None if write.restore else RefusalReason.PAYLOAD
    if write.state in BEFORE_CLAIM:
        return _judge_before_claim(stored, write)
    if write.generation < stored.generation:
        return RefusalReason.GENERATION
    if write.generation > stored.generation:
        return _judge_newer_generation(stored, write)
    if write.attempt < stored.attempt and not _brings_outcome(stored, write):
        return RefusalReason.ATTEMPT
    return None if write.state in FOLLOWERS[stored.state] else RefusalReason.STATE


def holder_after_refusal(stored: StoredFacts, write: WriteFacts) -> str | None:
    """Return the worker that a status names after a write was refused for its attempt.

    While the PENDING of a resend stands, a worker may give up the attempt before it. Where that
    PENDING is taken back, the earlier status stands again. It would never read as LOST if it named
    a worker that lives and has given the request up. So the name gets the suffix `DISOWNED`, under
    which there is no heartbeat. It is not cleared: an empty name says that nobody has the request,
    and another worker may have accepted it meanwhile, whose word was refused as well.

    Returns:
        None where the write changes nothing.
    """
    is_given_up = write.state is State.ACCEPTED and bool(write.held_by)
    # What was sent before a failure that the PENDING reopens is over, and says nothing of it.
    is_of_run = (write.reopens or 0) >= stored.generation
    if stored.state is State.PENDING and is_given_up and is_of_run:
        return stored.worker + DISOWNED
    return None


def _brings_outcome(stored: StoredFacts, write: WriteFacts) -> bool:
    # A PENDING of the same generation replaced a FAILED to reopen it: its client knows the outcome.
    return write.state in FINAL and stored.state not in BEFORE_CLAIM


def _judge_before_claim(stored: StoredFacts, write: WriteFacts) -> RefusalReason | None:
    if write.attempt < stored.attempt:
        return RefusalReason.ATTEMPT
    if write.follows is not None and (write.follows == 0 or stored.attempt < write.follows):
        return RefusalReason.TAKEN_BACK
    if write.reopens is not None and write.reopens < stored.generation:
        return RefusalReason.GENERATION
    if stored.state is State.FAILED and stored.resend and write.attempt > stored.attempt:
        return None
    if stored.state not in BEFORE_CLAIM:
        return RefusalReason.GENERATION
    if write.attempt > stored.attempt:
        return None
    return None if write.state in FOLLOWERS[stored.state] else RefusalReason.STATE


def _judge_newer_generation(stored: StoredFacts, write: WriteFacts) -> RefusalReason | None:
    if write.state not in NEWER_GENERATION.get(stored.state, frozenset()):
        return RefusalReason.STATE
    if write.attempt < stored.attempt and write.state not in FINAL:
        return RefusalReason.ATTEMPT
    return None


def may_reopen(state: State, *, resend: bool) -> bool:
    """Whether a resend can still lead to a run, so that the payload must stay stored."""
    return state not in FINAL or (state is State.FAILED and resend)


def derive(state: State, *, worker: str, worker_alive: bool) -> State:
    """Return the state that a reader sees: LOST for an ACCEPTED without a living worker.

    A LOST request was committed and never claimed, so it is safe to resend (docs: Statuses).

    Args:
        state: the stored state.
        worker: the worker that accepted the request; empty when it gave the request up.
        worker_alive: the worker has a heartbeat.
    """
    if state is State.ACCEPTED and not (worker and worker_alive):
        return State.LOST
    return state
