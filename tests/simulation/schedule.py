"""Schedules: drawn from a seed, replayed from their steps, and always run to quiet at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random

from tests.simulation.audited import check_audit
from tests.simulation.ending import check_end, run_to_quiet
from tests.simulation.fault_steps import LINKS, VERBS
from tests.simulation.processes import Violation
from tests.simulation.steps import Step
from tests.simulation.world import World

STEP_MS = 3
WORK = {
    "loop": 24,
    "intake": 8,
    "status_writer": 5,
    "sweep": 5,
    "republish": 3,
    "child": 26,
    "client": 7,
    "resender": 2,
    "time": 14,
    "start": 3,
    "back": 3,
    "wake": 3,
    "late": 1,
    "abort": 3,
    "close": 1,
}
FAULTS = {
    "arm": 10,
    "arm-sender": 2,
    "suspend": 1,
    "crash": 2,
    "kill": 2,
    "freeze": 3,
    "away": 2.5,
    "empty": 0.4,
    "redis-back": 0.4,
    "flush": 0.4,
    "forget": 0.6,
    "transaction": 0.4,
    "prune": 1,
    "reset": 0.4,
    "rebalance": 1.5,
    "duplicate": 1.5,
    "drain": 0.5,
}
PAUSES_MS = (20, 300, 1000, 1000, 2000, 6000)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a schedule.

    Attributes:
        steps: all that were taken before the end.
        violation: what it broke, if anything.
        seen: the states that requests were in, and the outcomes of runs that others followed.
        story: line by line, if it was asked for.
    """

    seed: int
    steps: tuple[Step, ...]
    violation: Violation | None
    seen: frozenset[str]
    story: tuple[str, ...] = ()


class Drawn:
    """Draws steps; each schedule has its own habits, so that faults meet in all combinations."""

    def __init__(self, seed: int) -> None:
        self._draw = Random(seed ^ 0x5EED)
        draw = self._draw
        self.count = draw.randint(50, 180)
        faults = {
            name: weight * draw.choice((0.5, 1, 2))
            for name, weight in FAULTS.items()
            if draw.random() < 0.5
        }
        # Some are slow at what they do, and some are seldom at rest.
        habits = {name: weight * draw.choice((0.3, 1, 1, 3)) for name, weight in WORK.items()}
        weights = habits | faults
        self._verbs = list(weights)
        self._cumulated: list[float] = []
        total = 0.0
        for weight in weights.values():
            total += weight
            self._cumulated.append(total)

        self._begin = [Step("client", number) for number in range(5)]
        self._begin += [Step("intake", place) for place in range(3)]
        if draw.random() < 0.3:
            self._begin = []

    def step(self) -> Step:
        """Return the next wish; it may make no sense now."""
        if self._begin:
            return self._begin.pop(0)
        draw = self._draw
        verb = draw.choices(self._verbs, cum_weights=self._cumulated)[0]
        who = draw.randrange(60)
        match verb:
            case "time":
                return Step(verb, 0, draw.choice(PAUSES_MS))
            case "arm" | "arm-sender":
                link, kind = draw.randrange(len(LINKS)), draw.randrange(60)
                return Step(verb, who, link, kind, draw.randrange(60))
        return Step(verb, who, draw.randrange(60), draw.randrange(60), draw.randrange(60))


def draw_and_run(seed: int) -> Outcome:
    """Draw the schedule of a seed, and run it."""
    world, drawn = World(seed), Drawn(seed)
    taken: list[Step] = []

    def next_step() -> bool:
        if len(taken) >= drawn.count:
            return False
        for _ in range(100):
            step = drawn.step()
            if VERBS[step.verb].can(world, step):
                taken.append(step)
                _take(world, step)
                return True
        return False

    return _outcome(world, seed, taken, next_step)


def replay(seed: int, steps: Iterable[Step], *, tells: bool = False) -> Outcome:
    """Run these steps, leaving out what makes no sense any more."""
    world = World(seed, tells=tells)
    left = iter(steps)
    taken: list[Step] = []

    def next_step() -> bool:
        for step in left:
            if VERBS[step.verb].can(world, step):
                taken.append(step)
                _take(world, step)
                return True
        return False

    return _outcome(world, seed, taken, next_step)


def _outcome(
    world: World, seed: int, taken: Sequence[Step], next_step: Callable[[], bool]
) -> Outcome:
    violation = None
    world.next_step = next_step
    try:
        while next_step():
            pass
        world.next_step = None
        run_to_quiet(world)
        check_end(world)
        check_audit(world)
    except Violation as found:
        violation = found
        world.note(None, f"broken: {found}")
    states = {state for _, _, state in world.watch.states}
    seen = frozenset(states.union(one.outcome for one in world.database.history))
    return Outcome(seed, tuple(taken), violation, seen, tuple(world.story or ()))


def _take(world: World, step: Step) -> None:
    world.clock.true_ms += STEP_MS
    VERBS[step.verb].do(world, step)
    if step.verb == "intake":
        world.watch.looked_after()
