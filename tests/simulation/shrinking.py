"""A schedule that breaks a promise, cut down to the fewest steps that still do."""

from __future__ import annotations

from collections.abc import Sequence

from tests.simulation.schedule import Outcome, replay
from tests.simulation.steps import Step


def shrink(outcome: Outcome) -> Outcome:
    """Return the shortest schedule found that breaks the same promise, with its story."""
    assert outcome.violation is not None
    invariant = outcome.violation.invariant
    shortest = list(outcome.steps)
    size = max(1, len(shortest) // 2)
    while True:
        shorter = _without_some(outcome.seed, shortest, size, invariant)
        if len(shorter) == len(shortest) and size == 1:
            return replay(outcome.seed, shorter, tells=True)
        if len(shorter) == len(shortest):
            size = max(1, size // 2)
        shortest = shorter


def _without_some(seed: int, steps: Sequence[Step], size: int, invariant: str) -> list[Step]:
    """Return the steps without those runs of `size` of them that it does not need."""
    kept = list(steps)
    at = 0
    while at < len(kept):
        candidate = kept[:at] + kept[at + size :]
        found = replay(seed, candidate).violation
        if found is not None and found.invariant == invariant:
            kept = candidate
        else:
            at += size
    return kept
