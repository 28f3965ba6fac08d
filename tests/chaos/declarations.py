"""What a deploy may declare, and the way through every pair of declarations. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

from tests.chaos.orders import Kind


@dataclass(frozen=True, slots=True)
class Declaration:
    """What handlers declare in one version of a deployment.

    Attributes:
        removed: the kinds that have no handler any more.

    >>> Declaration.from_json(Declaration("marked").as_json()) == Declaration("marked")
    True
    """

    effect: str
    in_doubt: str | None = "park"
    delivery: str = "at_most_once"
    order: str | None = None
    removed: tuple[str, ...] = ()
    deadline_s: float | None = None

    @classmethod
    def from_json(cls, text: str) -> Declaration:
        """Return what was written."""
        said = json.loads(text)
        return cls(**said | {"removed": tuple(said["removed"])})

    def as_json(self) -> str:
        """Return it as it is written."""
        return json.dumps(asdict(self))

    def arguments(self) -> dict[str, Any]:
        """Return what the decorator is given."""
        given = asdict(self)
        del given["removed"]
        return {name: value for name, value in given.items() if value is not None}

    def __str__(self) -> str:
        words = (self.effect, self.in_doubt, self.delivery, self.order and f"order by {self.order}")
        said = ", ".join(word for word in words if word)
        return f"{said}, without {', '.join(self.removed)}" if self.removed else said


EACH = (
    Declaration("marked"),
    Declaration("marked", "retry_same_key"),
    Declaration("external"),
    Declaration("external", "retry_same_key"),
    Declaration("transactional", None),
    Declaration("marked", delivery="at_least_once"),
    Declaration("external", "retry_same_key", "at_least_once"),
    Declaration("marked", order="key"),
    Declaration("marked", removed=(Kind.MARKED, Kind.EXTERNAL)),
)


def through_all_pairs(random: Random) -> Iterator[Declaration]:
    """Yield declarations so that each is followed by each other once, and end with the first.

    >>> way = list(through_all_pairs(Random(1)))
    >>> len(set(zip(way, way[1:]))) == len(EACH) * (len(EACH) - 1) == len(way) - 1
    True
    """
    left = {one: random.sample([two for two in EACH if two != one], len(EACH) - 1) for one in EACH}
    # Hierholzer: walk until there is no way on, and put side ways in where they branched off.
    walk, circuit = [random.choice(EACH)], []
    while walk:
        if ways := left[walk[-1]]:
            walk.append(ways.pop())
        else:
            circuit.append(walk.pop())
    yield from reversed(circuit)
