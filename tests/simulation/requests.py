"""What is asked of the workers, and what their handlers do: decided before a schedule begins."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random

from consumer.declaration import EffectKind, Handler, InDoubtPolicy


class Declared(Exception):
    """Nothing happened, and running again is safe: the handlers declare it in `retry_on`."""


class Act(StrEnum):
    """What one run of a handler does. None of them lies."""

    SUCCEEDS = "succeeds"
    FAILS_BEFORE = "fails before its effect"
    FAILS_AFTER = "fails after its effect"
    IS_UNSURE_BEFORE = "is unsure, and did nothing"
    IS_UNSURE_AFTER = "is unsure, and did it"
    DECLARES = "fails, and says that nothing happened"
    REJECTS = "rejects"
    HANGS = "hangs after its effect"

    @property
    def has_effect(self) -> bool:
        """Whether it gets as far as its effect."""
        return self in (Act.SUCCEEDS, Act.FAILS_AFTER, Act.IS_UNSURE_AFTER, Act.HANGS)


def _nothing(request: object) -> None:
    """Stand in for the user's function, which the simulated pool plays."""


def _handler(effect: EffectKind, policy: InDoubtPolicy) -> Handler:
    topic = f"{effect}-{policy}"
    return Handler(
        function=_nothing,
        topic=topic,
        name=topic,
        effect=effect,
        in_doubt=policy,
        query=_nothing if policy is InDoubtPolicy.QUERY else None,
        time_limit_s=30.0,
        retry_on=(Declared,),
    )


HANDLERS = {
    one.topic: one
    for one in (
        *(_handler(EffectKind.EXTERNAL, policy) for policy in InDoubtPolicy),
        *(_handler(EffectKind.MARKED, policy) for policy in InDoubtPolicy),
        _handler(EffectKind.TRANSACTIONAL, InDoubtPolicy.PARK),
    )
}

_OTHERS = tuple(act for act in Act if act not in (Act.SUCCEEDS, Act.REJECTS))
# What is undone when it fails can neither be in doubt nor have failed afterwards.
_UNDONE = (Act.FAILS_BEFORE, Act.DECLARES)


@dataclass(frozen=True, slots=True)
class Plan:
    """One request.

    Attributes:
        acts: what its runs do, by generation; the last is repeated.
        voids: whether the counterparty, asked about a key that it does not know, voids it.
        deadline_s: after its submission.
        waits: whether its client waits for the end, with the payload in its hands.
    """

    request_id: str
    topic: str
    acts: tuple[Act, ...]
    voids: bool
    deadline_s: float
    waits: bool

    @property
    def handler(self) -> Handler:
        """Its handler."""
        return HANDLERS[self.topic]

    def act(self, generation: int) -> Act:
        """Return what the run of this generation does."""
        return self.acts[min(generation, len(self.acts)) - 1]


def draw_plans(random: Random, count: int) -> list[Plan]:
    """Draw requests, of one to three topics."""
    topics = random.sample(sorted(HANDLERS), random.choice((1, 1, 2, 3)))
    return [_draw_plan(random, f"r{number}", random.choice(topics)) for number in range(count)]


def _draw_plan(random: Random, request_id: str, topic: str) -> Plan:
    if random.random() < 0.05:
        acts: tuple[Act, ...] = (Act.REJECTS,)
    else:
        others = _OTHERS if "transactional" not in topic else _UNDONE
        odd = [act for act in random.choices(others, k=2) if random.random() < 0.4]
        acts = (*odd, Act.SUCCEEDS)
    return Plan(
        request_id=request_id,
        topic=topic,
        acts=acts,
        voids=random.random() < 0.7,
        deadline_s=random.choice((6.0, 25.0, 300.0, 300.0, 300.0)),
        waits=random.random() < 0.7,
    )
