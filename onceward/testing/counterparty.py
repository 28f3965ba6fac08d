"""An outside system that counts: how often it was called, and how often it acted."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any, Protocol
from weakref import WeakValueDictionary

from onceward.testing.deaths import Point, go_on, reach


class KeyRefused(Exception):
    """The counterparty refuses a key that it was told to void."""


class ChildsCall(Protocol):
    """Calls the counterparties of a test from another process."""

    def call(self, what: str, place: str, key: str) -> Any: ...


# In a real child: the way to the test's process, where each counterparty acts and counts.
CALLER: list[ChildsCall] = []
_made: Counter[str] = Counter()
_by_place: WeakValueDictionary[str, Counterparty] = WeakValueDictionary()


def counterparties() -> list[Counterparty]:
    """Return all counterparties of this process."""
    return list(_by_place.values())


def counterparty_at(place: str) -> Counterparty | None:
    """Return the counterparty of this process that was made at a place, if any."""
    return _by_place.get(place)


class Counterparty:
    """A bank, a shop, a mail server: what a handler calls. Not for several threads.

    Each call is an effect: `Bench.die_in_effect` dies after it acted, before it answered. A run
    that is dead calls in vain.

    Args:
        idempotent: whether it acts once for a key, however often it is called with it.

    Attributes:
        calls: how often it was called, by key. acted: how often it acted, by key.
        place: where it was made; it is the same in a real child, which imports the same module.

    >>> bank = Counterparty(idempotent=True)
    >>> [bank.call("a"), bank.call("a"), bank.times_acted]
    [True, False, 1]
    """

    def __init__(self, *, idempotent: bool = False) -> None:
        self.idempotent = idempotent
        self.calls: Counter[str] = Counter()
        self.acted: Counter[str] = Counter()
        self._void: set[str] = set()
        made_by = sys._getframe(1)
        line = f"{made_by.f_globals.get('__name__')}:{made_by.f_lineno}"
        self.place = f"{line}#{_made[line]}"
        _made[line] += 1
        _by_place[self.place] = self

    @property
    def times_acted(self) -> int:
        """How often it acted, for all keys."""
        return self.acted.total()

    def call(self, key: str) -> bool:
        """Act; False where it knows the key and has acted before.

        Raises:
            KeyRefused: the key is void.
        """
        reach(Point.AT_CALL)
        if CALLER:
            is_new = bool(CALLER[0].call("call", self.place, key))
            reach(Point.IN_EFFECT)
            return is_new
        go_on()
        self.calls[key] += 1
        if key in self._void:
            raise KeyRefused(key)
        is_new = not (self.idempotent and self.knows(key))
        if is_new:
            self.acted[key] += 1
        reach(Point.IN_EFFECT)
        return is_new

    def knows(self, key: str) -> bool:
        """Return whether it has acted for the key."""
        if CALLER:
            return bool(CALLER[0].call("knows", self.place, key))
        return self.acted[key] > 0

    def void(self, key: str) -> None:
        """Refuse the key from now on."""
        if CALLER:
            CALLER[0].call("void", self.place, key)
        else:
            self._void.add(key)

    def forget(self) -> None:
        """Be as new."""
        self.calls.clear()
        self.acted.clear()
        self._void.clear()
