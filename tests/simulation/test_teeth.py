"""Each planted fault is found, and is told by a few steps; what is harmless is not."""

from __future__ import annotations

import inspect

import pytest

from tests.simulation.planted import ALSO_PLANTED, HARMLESS, PLANTED, PLANTED_IN, Planted
from tests.simulation.running import first_broken, simulated
from tests.simulation.schedule import draw_and_run, replay
from tests.simulation.shrinking import shrink

WITHIN = 2_000
SEED = 1
# What a person can still read at one sitting.
FEW_STEPS = 60


EVERY = (*PLANTED, *ALSO_PLANTED, *(fault for fault, _, _ in PLANTED_IN), HARMLESS)


@pytest.mark.parametrize("fault", EVERY, ids=lambda fault: fault.name.replace(" ", "-"))
def test_a_planted_fault_is_called_as_what_it_stands_in_for(fault: Planted) -> None:
    for owner, name, stand_in in fault.changes:
        asked = inspect.signature(getattr(owner, name)).parameters.values()
        named = {one.name: None for one in asked if one.kind is one.KEYWORD_ONLY}
        # Raises where a parameter has come or gone since it was planted.
        inspect.signature(stand_in).bind(*[None] * (len(asked) - len(named)), **named)


# One shows that the detector works at all; each of the others proves an invariant of its own.
FIRST, *OTHERS = (*PLANTED, *ALSO_PLANTED)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "fault",
    [FIRST, *(pytest.param(one, marks=pytest.mark.long) for one in OTHERS)],
    ids=lambda fault: fault.name.replace(" ", "-"),
)
def test_a_planted_fault_is_found_and_cut_down(fault: Planted) -> None:
    with simulated(), fault.planted():
        outcome, _ = first_broken(SEED, WITHIN)
        assert outcome is not None, f"not found within {WITHIN} schedules"
        assert outcome.violation is not None
        # It breaks a promise, and not the shape of a call that has changed since it was planted.
        assert not isinstance(outcome.violation.__cause__, TypeError), outcome.violation
        shortest = shrink(outcome)
    with simulated():
        assert replay(shortest.seed, shortest.steps).violation is None, "it is there without it"
    assert shortest.violation is not None
    assert shortest.violation.invariant == outcome.violation.invariant
    assert len(shortest.steps) <= min(FEW_STEPS, len(outcome.steps))


@pytest.mark.parametrize(
    ("fault", "seed", "invariant"),
    PLANTED_IN,
    ids=[fault.name.replace(" ", "-") for fault, _, _ in PLANTED_IN],
)
def test_a_planted_fault_is_found_where_the_journal_forgets(
    fault: Planted, seed: int, invariant: str
) -> None:
    with simulated():
        assert draw_and_run(seed).violation is None
        with fault.planted():
            violation = draw_and_run(seed).violation
    assert violation is not None
    assert violation.invariant == invariant


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_claim_that_says_nothing_of_its_effect_is_not_trusted() -> None:
    with simulated(), HARMLESS.planted():
        assert first_broken(SEED, 300)[0] is None
