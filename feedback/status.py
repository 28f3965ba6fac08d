"""The status rule: which write may follow which, as one table (contract, section 4).

Theory of operation. A status is written by clients (PENDING), by workers on receipt (ACCEPTED) and
by workers that repeat what the journal says (RUNNING and everything after). Writers race, and a
message may be late, so a write is judged by four facts in this order: payload, generation,
attempt, state. Three things bite the next editor:

- A write that knows no generation (PENDING, ACCEPTED) counts as generation 0: it never overwrites
  what a claim has written, except a FAILED that says a resend may help, of which its sender had
  been told.
- An older attempt may still bring the final outcome, since the journal knows one row per request.
- A final status never changes, but for an IN_DOUBT that is resolved and a FAILED that is reopened.

`feedback/redis/status_script.py` writes the same rule as a Lua script for Redis from the same
table; the two are tested against each other exhaustively.
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


STORED = tuple(state for state in State if state not in (State.LOST, State.UNKNOWN))
FINAL = frozenset({State.SUCCEEDED, State.FAILED, State.IN_DOUBT, State.EXPIRED, State.SKIPPED})
# Written before a claim, so they carry no generation.
BEFORE_CLAIM = frozenset({State.PENDING, State.ACCEPTED})

# No clock is off by more.
CLOCKS_APART_S = 3600

_AFTER_CLAIM = frozenset(STORED) - BEFORE_CLAIM

FOLLOWERS: dict[State, frozenset[State]] = {
    # from: what may follow within the same generation and attempt
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
    # what a higher generation may overwrite: everything open, a FAILED that was reopened, and an
    # IN_DOUBT whose resolution was missed here; it is only ever shown as resolved, never as open
    State.PENDING: _AFTER_CLAIM,
    State.ACCEPTED: _AFTER_CLAIM,
    State.RUNNING: _AFTER_CLAIM,
    State.RETRYING: _AFTER_CLAIM,
    State.FAILED: _AFTER_CLAIM,
    State.IN_DOUBT: frozenset({State.IN_DOUBT, State.SUCCEEDED, State.FAILED}),
}


class Refusal(StrEnum):
    """Why a write was not taken."""

    PAYLOAD = "payload"
    GENERATION = "generation"
    ATTEMPT = "attempt"
    STATE = "state"
    WORKER = "worker"
    TAKEN_BACK = "taken_back"


@dataclass(frozen=True, slots=True)
class Stored:
    """The facts of a stored status that the rule looks at.

    Attributes:
        generation: 0 when no claim has been told yet.
        resend: a FAILED that a higher attempt may reopen.
        topic: that it came from; empty where nobody has said.
    """

    state: State
    attempt: int
    generation: int
    payload_sha256: str
    resend: bool = False
    worker: str = ""
    topic: str = ""


@dataclass(frozen=True, slots=True)
class Write:
    """The facts of a write that the rule looks at.

    Attributes:
        restore: the journal's own row is written over another request's status (a mismatch
            verdict: contract, section 4).
        held_by: only while this worker is the one that stands there; a worker that gives a
            request up must not clear the name of the next owner. None: whoever it is.
        reopens: before a claim: the highest generation whose failure it may reopen; what a client
            was told is over does not begin anew by a sending that was on its way. None: any.
        topic: that it is about; empty: whichever.
        follows: before a claim: the attempt that the writer has read, and that must still stand
            there, or a later one. Where it was taken back since, its client was told so, and
            nobody may send it. 0: it has read that nothing stands, which must still be so, while
            the payload is still kept: what was told since is another's to send. None: whatever
            stands.
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
    """Whether what another start of Redis was told may have been taken back since, and its client
    told `NotSent`: the first PENDING of a request, or of one that failed and was asked for again.
    Long after its deadline that harms nobody: it can only expire.

    Args:
        left_s: until the deadline, negative after it; None without one.
    """
    is_first = attempt <= 1 or is_asked_anew
    may_run = left_s is None or left_s > -CLOCKS_APART_S
    return state is State.PENDING and is_first and may_run


def is_other_request(stored: Stored, write: Write) -> bool:
    """Whether two requests share the id: another payload, or another topic of the group."""
    is_elsewhere = "" != stored.topic != write.topic != ""
    return write.payload_sha256 != stored.payload_sha256 or is_elsewhere


def judge(stored: Stored | None, write: Write, *, is_kept: bool = False) -> Refusal | None:
    """Return None when the write may be taken, else why not (contract, section 4).

    Args:
        is_kept: the payload of which nothing is told is kept.
    """
    if stored is None:
        is_there = write.follows is None or (write.follows == 0 and is_kept)
        return None if is_there else Refusal.TAKEN_BACK
    if write.held_by is not None and write.held_by != stored.worker:
        return Refusal.WORKER
    if is_other_request(stored, write):
        # Another request under this id: only the journal's own row may put it right.
        return None if write.restore else Refusal.PAYLOAD
    if write.state in BEFORE_CLAIM:
        return _judge_before_claim(stored, write)
    if write.generation < stored.generation:
        return Refusal.GENERATION
    if write.generation > stored.generation:
        return _judge_newer_generation(stored, write)
    if write.attempt < stored.attempt and not _brings_outcome(stored, write):
        return Refusal.ATTEMPT
    return None if write.state in FOLLOWERS[stored.state] else Refusal.STATE


def _brings_outcome(stored: Stored, write: Write) -> bool:
    # A PENDING of the same generation stands for a reopened FAILED: that outcome was told before.
    return write.state in FINAL and stored.state not in BEFORE_CLAIM


def _judge_before_claim(stored: Stored, write: Write) -> Refusal | None:
    if write.attempt < stored.attempt:
        return Refusal.ATTEMPT
    if write.follows is not None and (write.follows == 0 or stored.attempt < write.follows):
        return Refusal.TAKEN_BACK
    if write.reopens is not None and write.reopens < stored.generation:
        return Refusal.GENERATION
    if stored.state is State.FAILED and stored.resend and write.attempt > stored.attempt:
        return None
    if stored.state not in BEFORE_CLAIM:
        return Refusal.GENERATION
    if write.attempt > stored.attempt:
        return None
    return None if write.state in FOLLOWERS[stored.state] else Refusal.STATE


def _judge_newer_generation(stored: Stored, write: Write) -> Refusal | None:
    if write.state not in NEWER_GENERATION.get(stored.state, frozenset()):
        return Refusal.STATE
    if write.attempt < stored.attempt and write.state not in FINAL:
        return Refusal.ATTEMPT
    return None


def may_reopen(state: State, *, resend: bool) -> bool:
    """Whether a resend can still lead to a run, so that the payload must be kept."""
    return state not in FINAL or (state is State.FAILED and resend)


def derive(state: State, *, worker: str, worker_alive: bool) -> State:
    """Return the state a reader sees: LOST for what a dead worker, or none, has accepted.

    A LOST request was committed and never claimed, so it is safe to resend (contract, section 4).
    """
    if state is State.ACCEPTED and not (worker and worker_alive):
        return State.LOST
    return state
