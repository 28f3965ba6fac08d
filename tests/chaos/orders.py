"""What clients order, drawn from a row's seed, and the requests by which they ask for it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from random import Random
from typing import Any

REJECTED_SHARE = 0.02
BUSY_SHARE = 0.02


class Kind(StrEnum):
    """The handlers, by what they declare; each has a topic of its own."""

    MARKED = "marked"
    EXTERNAL = "external"
    TRANSACTIONAL = "transactional"
    KEYED = "keyed"


# In this many of a hundred requests.
SHARES = {Kind.MARKED: 40, Kind.EXTERNAL: 20, Kind.TRANSACTIONAL: 20, Kind.KEYED: 20}


def topic_of(prefix: str, kind: Kind) -> str:
    """Return the topic of a kind.

    >>> topic_of("row", Kind.MARKED)
    'row-marked'
    """
    return f"{prefix}-{kind}"


class Deed(StrEnum):
    """What the handler does about a request.

    CHARGE charges. REJECT refuses before anything has happened. BUSY fails the first attempt in
    a way that a resend may mend, and charges at the next. HANG and DIE do so before the effect is
    entered, HANG_INSIDE and DIE_INSIDE within it, before the charge.
    """

    CHARGE = "charge"
    REJECT = "reject"
    BUSY = "busy"
    HANG = "hang"
    DIE = "die"
    HANG_INSIDE = "hang-inside"
    DIE_INSIDE = "die-inside"
    WEDGE = "wedge"


@dataclass(frozen=True, slots=True)
class Order:
    """What a client wants once: a charge. The bank counts by its name.

    Attributes:
        takes_ms: how long its handler works, half of it before the charge.
        gate: it waits until the bank opens the gate of this name; empty: it does not.
        asked: how often it was asked for under an id of its own; the first request has its name.

    >>> order = Order("order-7", Kind.MARKED, 10, Deed.REJECT)
    >>> order.request_id, order.anew().request_id, order.anew().deed.value
    ('order-7', 'order-7.2', 'charge')
    """

    name: str
    kind: Kind
    takes_ms: int
    deed: Deed = Deed.CHARGE
    gate: str = ""
    asked: int = 1

    @property
    def request_id(self) -> str:
        """The id of the request by which it is asked for."""
        return self.name if self.asked == 1 else f"{self.name}.{self.asked}"

    def anew(self) -> Order:
        """Return it as it is asked for under another id: that one charges, whatever kept the
        first from it, so that a first that runs after all shows."""
        return replace(self, deed=Deed.CHARGE, asked=self.asked + 1)

    def body(self) -> dict[str, Any]:
        """Return what its handler reads."""
        return asdict(self)


def hash_of(text: str) -> int:
    """Return a number that is the same for the same text, in every process."""
    return Random(text).getrandbits(32)


@dataclass(frozen=True, slots=True)
class OrderBook:
    """All orders of a row, by number.

    Attributes:
        troubles: the share of each misbehaviour.

    >>> OrderBook("example", 7).order(3) == OrderBook("example", 7).order(3)
    True
    """

    name: str
    seed: int
    fastest_ms: int = 5
    slowest_ms: int = 100
    troubles: Mapping[Deed, float] = field(default_factory=dict)

    def order(self, number: int) -> Order:
        """Return the order of this number."""
        drawn = Random(f"{self.name} {self.seed} {number}")
        kind = drawn.choices(list(SHARES), list(SHARES.values()))[0]
        shares = {Deed.REJECT: REJECTED_SHARE, Deed.BUSY: BUSY_SHARE, **self.troubles}
        rest = {Deed.CHARGE: 1 - sum(shares.values()), **shares}
        return Order(
            name=f"{self.name}-{self.seed}-{number:06}",
            kind=kind,
            takes_ms=drawn.randint(self.fastest_ms, self.slowest_ms),
            deed=drawn.choices(list(rest), list(rest.values()))[0],
        )
