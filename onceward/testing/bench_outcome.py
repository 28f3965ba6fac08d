"""How a request stands in a bench."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from consumer.handlers.declaration import DeliveryKind, Handler, Order
from consumer.handlers.registry import DECLARED
from feedback.errors import OncewardError
from feedback.statuses import Status


class NotCovered(OncewardError):
    """A bench cannot run this handler; the sentence names the declaration."""

    entry = "error-notcovered"


class NotReal(NotCovered):
    """A test cannot be run on real servers; the sentence says why. Pytest shows it as skipped."""


def covered(function: Callable[..., Any]) -> Handler:
    """Return the declaration of a function.

    Raises:
        NotCovered: a bench cannot run it.
    """
    known = next((one for one in DECLARED.handlers if one.function is function), None)
    if known is None:
        raise NotCovered(f"{function!r} has no @handler")
    named = {
        "delivery=": known.delivery is not DeliveryKind.AT_MOST_ONCE,
        'order="key"': known.order is Order.KEY,
        "collapse=": known.collapse is not None,
        "dead_letters_of=": known.dead_letters_of is not None,
    }
    for name, is_declared in named.items():
        if is_declared:
            raise NotCovered(f"{known.name}: a bench does not cover {name}")
    if known.schema is not None:
        known.schema.load()
    return known


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
