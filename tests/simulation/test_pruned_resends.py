"""A pruned record is read again, its worker dies before the claim, and its resend is read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.planted import REPEATS_NOTHING, TOLD_WITHOUT_TIME, Planted
from tests.simulation.requests import Act
from tests.simulation.running import simulated
from tests.simulation.schedule import replay
from tests.simulation.steps import Step
from tests.simulation.world import World

# In its world an order comes from another producer, to a broker that gives records no time: each
# reading of the record gives it a new deadline.
SEED, ORDER = 478, 3
PLACES = range(3)
# Beyond the deadline of a record that names none.
LONG = [Step("time", 0, 6_000)] * 4
# Beyond a heartbeat and a session.
SILENCE = [Step("time", 0, 6_000)] * 2


def of_each(*verbs: str) -> Iterator[Step]:
    """Yield a step of each worker, one verb after the other."""
    for verb in verbs:
        for place in PLACES:
            steps = [Step(verb, place, child) for child in (0, 1)] * 4
            yield from steps if verb == "child" else [Step(verb, place)]


def whole_way() -> Iterator[Step]:
    """Yield the way of a request from its record to its told end."""
    yield from of_each("intake", "status_writer", "loop", "loop", "child", "loop", "loop")
    yield from of_each("status_writer", "loop", "status_writer")


SCHEDULE = (
    Step("client", ORDER),
    *whole_way(),
    *LONG,
    *of_each("loop", "status_writer", "loop"),
    Step("prune"),
    Step("flush"),
    Step("reset"),
    *of_each("intake", "status_writer"),
    *of_each("crash"),
    *SILENCE,
    Step("resender"),
    Step("start"),
    Step("time", 0, 2_000),
    *whole_way(),
    *whole_way(),
)


def test_the_world_has_what_the_schedule_needs() -> None:
    with simulated():
        world = World(SEED)
        plan = [*world.plans.values()][ORDER]
    assert (plan.is_foreign, plan.voids, plan.acts) == (True, True, (Act.SUCCEEDS,))


def test_its_resend_is_in_doubt_and_charges_nobody_again() -> None:
    with simulated():
        outcome = replay(SEED, SCHEDULE, tells=True)
    assert outcome.violation is None
    assert any("has resent r3, attempt 2: lost" in line for line in outcome.story)
    assert any("r3/1 IN_DOUBT" in line for line in outcome.story)


@pytest.mark.parametrize(
    "fault", [REPEATS_NOTHING, TOLD_WITHOUT_TIME], ids=lambda fault: fault.name.replace(" ", "-")
)
def test_a_resend_that_is_judged_by_its_own_place_runs_once_more(fault: Planted) -> None:
    with simulated(), fault.planted():
        violation = replay(SEED, SCHEDULE).violation
    assert violation is not None
    assert violation.invariant == "what was pruned never runs again"
