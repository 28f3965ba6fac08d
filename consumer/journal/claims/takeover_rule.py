"""How a run without an end may be followed: the rule of takeovers, as a pure function."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from consumer.journal.claims.verdict import is_same_request
from consumer.journal.records import (
    DEADLINE_OVER,
    WORKER_DIED,
    JournalState,
    Row,
    Takeover,
    TakeoverKind,
    TakeoverResultKind,
    cleaned,
)

CRASH_LOOP = "CRASH_LOOP"
# The children, or whole workers, that one attempt may cost. A worker dies of other things than of
# one request; ten in a row hardly.
RUNS_LIMIT = 3
WORKERS_LIMIT = 10


@dataclass(frozen=True, slots=True)
class TakeoverDecision:
    """The verdict on a takeover; state, code and message are those of an ENDED request."""

    kind: TakeoverResultKind
    state: JournalState | None = None
    code: str | None = None
    message: str | None = None


_GRANTED = TakeoverDecision(TakeoverResultKind.GRANTED)
_MINE = TakeoverDecision(TakeoverResultKind.MINE)
_STALE = TakeoverDecision(TakeoverResultKind.STALE)
_DOUBTFUL = TakeoverDecision(TakeoverResultKind.DOUBTFUL)


def effect_excluded(row: Row) -> bool:
    """Whether the run certainly left no effect if it did not finish (docs: Effects and doubt).

    A plain external handler is never excluded: its whole run may be the effect, so `effect_at`
    proves nothing.
    """
    if row.effect_kind == "marked":
        return row.effect_at is None
    return row.effect_kind == "transactional"


def decide_takeover(
    wish: Takeover,
    row: Row | None,
    now: int,
    *,
    worker_id: str,
    owner_lives: bool,
    ended_runs: Mapping[str, int],
    held: Collection[tuple[str, int]],
) -> TakeoverDecision:
    """Return the verdict on a takeover of this row.

    Args:
        owner_lives: whether the row's owner has a lease that is not over.
        ended_runs: how many runs of this attempt were followed by another, by why.
        held: as for claims.
    """
    if row is None or row.state != JournalState.CLAIMED:
        return _STALE
    if not is_same_request(wish, row):
        # The database has lost the claim, and another request of its id was claimed since.
        return _STALE
    if any(name == row.request_id and run > row.generation for name, run in held):
        # A later run is in hand: the database has lost its claim.
        return _STALE
    if row.generation == wish.generation + 1 and row.owner == worker_id:
        is_earlier_try = (row.request_id, row.generation) not in held
        return _MINE if is_earlier_try and wish.kind is not TakeoverKind.ASK else _STALE
    if row.generation != wish.generation or (owner_lives and row.owner != worker_id):
        return _STALE
    if wish.kind is TakeoverKind.ASK:
        return _GRANTED
    excluded = effect_excluded(row)
    if wish.kind is TakeoverKind.EXCLUDED and not excluded:
        return _DOUBTFUL
    nothing_happened = excluded or wish.kind is TakeoverKind.VOIDED
    if now >= row.deadline_at:
        return _too_late(wish, nothing_happened)
    if _is_loop(wish, ended_runs):
        return _crash_loop(wish, nothing_happened)
    return _GRANTED


def _too_late(wish: Takeover, nothing_happened: bool) -> TakeoverDecision:
    if nothing_happened:
        why = "its run left nothing, and the deadline was over before another"
        return TakeoverDecision(TakeoverResultKind.ENDED, JournalState.EXPIRED, DEADLINE_OVER, why)
    why = "the deadline was over before another run could settle whether the effect happened"
    if wish.error:
        why += f"; the last error: {cleaned(wish.error)}"
    return TakeoverDecision(TakeoverResultKind.ENDED, JournalState.IN_DOUBT, wish.because, why)


def _is_loop(wish: Takeover, ended_runs: Mapping[str, int]) -> bool:
    workers = ended_runs.get(WORKER_DIED, 0)
    if wish.because == WORKER_DIED:
        return workers + 1 >= WORKERS_LIMIT
    # Those that failed as declared had an end, and their retries are counted elsewhere.
    with_end = workers + ended_runs.get(JournalState.RETRYING, 0)
    return sum(ended_runs.values()) - with_end + 1 >= RUNS_LIMIT


def _crash_loop(wish: Takeover, nothing_happened: bool) -> TakeoverDecision:
    state = JournalState.FAILED if nothing_happened else JournalState.IN_DOUBT
    limit = WORKERS_LIMIT if wish.because == WORKER_DIED else RUNS_LIMIT
    why = f"{limit} runs ended without an outcome, the last one: {wish.because}"
    if wish.error is None:
        return TakeoverDecision(TakeoverResultKind.ENDED, state, CRASH_LOOP, why)
    # It raised, and nothing crashed: the code is the error's own.
    if wish.error:
        why += f", {cleaned(wish.error)}"
    return TakeoverDecision(TakeoverResultKind.ENDED, state, wish.because, why)
