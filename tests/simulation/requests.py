"""What is asked of the workers, and what their handlers do: decided before a schedule begins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random

from consumer.handlers.declaration import EffectKind, Handler, InDoubtPolicy, Order


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

    @property
    def undone(self) -> Act:
        """What it comes to where nothing is done before all is committed."""
        is_as_it_is = self in (Act.SUCCEEDS, Act.DECLARES, Act.REJECTS)
        return self if is_as_it_is else Act.FAILS_BEFORE


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


HANDLERS: dict[str, Handler] = {
    one.topic: one
    for one in (
        *(_handler(EffectKind.EXTERNAL, policy) for policy in InDoubtPolicy),
        *(_handler(EffectKind.MARKED, policy) for policy in InDoubtPolicy),
        _handler(EffectKind.TRANSACTIONAL, InDoubtPolicy.PARK),
    )
}


def in_order(handler: Handler) -> Handler:
    """Return a handler that keeps order by key; no failure of it is run again by itself."""
    return replace(handler, order=Order.KEY, retry_on=())


def collapsing(handler: Handler) -> Handler:
    """Return a handler of which one request of a key runs in the stead of those behind it."""
    return replace(in_order(handler), collapse=_nothing)


def redeclared(handler: Handler, random: Random) -> Handler:
    """Return a handler with another effect, or another policy, and the same order."""
    other = random.choice([one for name, one in HANDLERS.items() if name != handler.topic])
    return replace(other, topic=handler.topic, order=handler.order, retry_on=handler.retry_on)


_OTHERS = tuple(act for act in Act if act not in (Act.SUCCEEDS, Act.REJECTS))
# What is undone when it fails can neither be in doubt nor have failed afterwards.
_UNDONE = (Act.FAILS_BEFORE, Act.DECLARES)


class Caller(StrEnum):
    """How whoever wants an order goes on when he is told that nothing came of a request."""

    RENEWS = "asks again under a new id"
    REPEATS = "asks again under the same id"
    RESENDS = "sends a failure again that a resend may help, and else asks under a new id"


@dataclass(frozen=True, slots=True)
class Plan:
    """One order: what somebody wants once, under however many ids he asks for it.

    Attributes:
        order: its name, which is the id of its first request.
        key: of its records.
        acts: what the runs of a request do, by generation; the last is repeated, and each further
            request begins one later.
        voids: whether the counterparty, asked about a key that it does not know, voids it.
        deadline_s: after a submission.
        waits: whether its client waits for the end, with the payload in its hands.
        caller: what he does about words that say that nothing happened.
        applies: what its predicate says, where its handler collapses.
        is_foreign: it is sent by some other Kafka client, which knows of no deadline and no status.
    """

    order: str
    key: bytes
    topic: str
    acts: tuple[Act, ...]
    voids: bool
    deadline_s: float
    waits: bool
    caller: Caller
    applies: bool = True
    is_foreign: bool = False

    def act(self, request_id: str, generation: int) -> Act:
        """Return what the run of this generation does."""
        place = generation + number_of(request_id) - 1
        return self.acts[min(place, len(self.acts)) - 1]


def nth_id(order: str, number: int) -> str:
    """Return the id of an order's request of this number; the first is the order's own name."""
    return order if number == 1 else f"{order}.{number}"


def order_of(request_id: str) -> str:
    """Return the order that a request is for."""
    return request_id.partition(".")[0]


def number_of(request_id: str) -> int:
    """Return which of its order's requests it is."""
    return int(request_id.partition(".")[2] or 1)


def draw_plans(random: Random, count: int) -> list[Plan]:
    """Draw orders, of one to three topics."""
    topics = random.sample(sorted(HANDLERS), random.choice((1, 1, 2, 3)))
    return [_draw_plan(random, f"r{number}", random.choice(topics)) for number in range(count)]


def _draw_plan(random: Random, order: str, topic: str) -> Plan:
    if random.random() < 0.05:
        acts: tuple[Act, ...] = (Act.REJECTS,)
    else:
        others = _OTHERS if "transactional" not in topic else _UNDONE
        odd = [act for act in random.choices(others, k=2) if random.random() < 0.4]
        acts = (*odd, Act.SUCCEEDS)
    return Plan(
        order=order,
        key=order.encode(),
        topic=topic,
        acts=acts,
        voids=random.random() < 0.7,
        deadline_s=random.choice((6.0, 25.0, 300.0, 300.0, 300.0)),
        waits=random.random() < 0.7,
        caller=random.choice(tuple(Caller)),
    )
