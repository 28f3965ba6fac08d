"""How a request stands in a bench."""

from __future__ import annotations

from dataclasses import dataclass

from feedback.statuses import Status


@dataclass(frozen=True, slots=True)
class BenchOutcome:
    """How a request stands after a sending; counts are of all its sendings.

    Attributes:
        status: as its client reads it.
        runs: how many times the handler was called for it.
        effects: how many times a run of it was let into `request.effect()`.
        commits: how many transactional runs of it were committed.
        state: of its journal row; empty where it has none. has_letter: a dead letter is owed.
    """

    status: Status
    runs: int
    effects: int
    commits: int
    state: str
    has_letter: bool
