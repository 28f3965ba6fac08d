"""What a person reads of schedules that break a promise."""

from __future__ import annotations

from tests.simulation.running import first_broken, simulated
from tests.simulation.schedule import Outcome
from tests.simulation.shrinking import shrink


def told(outcome: Outcome) -> str:
    """Return what a person needs: what broke, the seed, and the story of the shortest schedule."""
    shortest = shrink(outcome)
    steps = "\n".join(f"  {step}" for step in shortest.steps)
    story = "\n".join(shortest.story)
    return (
        f"seed {outcome.seed} breaks a promise: {shortest.violation}\n"
        f"replay: python -m tests.simulation --schedules 1 --seed {outcome.seed}\n"
        f"{len(shortest.steps)} of {len(outcome.steps)} steps are needed:\n{steps}\n\n{story}"
    )


def run_and_tell(seed: int, count: int) -> list[tuple[int, str]]:
    """Run so many schedules; return how many were run since the last, and what is to be told.

    Args:
        seed: of the first.
    """
    done: list[tuple[int, str]] = []
    end = seed + count
    with simulated():
        while seed < end:
            outcome, ran = first_broken(seed, end - seed)
            done.append((ran, told(outcome) if outcome is not None else ""))
            seed += ran
    return done
