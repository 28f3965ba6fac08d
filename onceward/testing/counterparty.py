"""An outside system that counts: how often it was called, and how often it acted."""

from __future__ import annotations

from collections import Counter

from onceward.testing.deaths import Point, go_on, reach


class KeyRefused(Exception):
    """The counterparty refuses a key that it was told to void."""


class Counterparty:
    """A bank, a shop, a mail server: what a handler calls. Not for several threads.

    Each call is an effect: `Bench.die_in_effect` dies after it acted, before it answered. A run
    that is dead calls in vain.

    Args:
        idempotent: whether it acts once for a key, however often it is called with it.

    Attributes:
        calls: how often it was called, by key. acted: how often it acted, by key.

    >>> bank = Counterparty(idempotent=True)
    >>> [bank.call("a"), bank.call("a"), bank.times_acted]
    [True, False, 1]
    """

    def __init__(self, *, idempotent: bool = False) -> None:
        self.idempotent = idempotent
        self.calls: Counter[str] = Counter()
        self.acted: Counter[str] = Counter()
        self._void: set[str] = set()

    @property
    def times_acted(self) -> int:
        """How often it acted, for all keys."""
        return self.acted.total()

    def call(self, key: str) -> bool:
        """Act; False where it knows the key and has acted before.

        Raises:
            KeyRefused: the key is void.
        """
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
        return self.acted[key] > 0

    def void(self, key: str) -> None:
        """Refuse the key from now on."""
        self._void.add(key)

    def forget(self) -> None:
        """Be as new."""
        self.calls.clear()
        self.acted.clear()
        self._void.clear()
