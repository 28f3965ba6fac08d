"""Dead workers that have no claim left, so that a sweep need not read their ended rows again. Pure.

While a long snapshot is open, a look at the claims of the dead reads all that gone workers have
ended since. Whose claims are all settled has none any more: its part of the index is left out, as
those of the living are. A claim that was committed late, or that its worker made between two
leases, is found by a look that leaves out the living alone: there is one again after a pause in
proportion, and where such a look is quick, each is one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from consumer.journal.pacing import pause_unless_quick_s

# Longer than a statement that was under way when its worker died, and than any usual lease.
SETTLED_AFTER_S = 60.0
REMEMBERED = 1_000


class GoneOwners:
    """The dead workers that the sweeps of one journal have found. Belongs to one thread."""

    def __init__(self) -> None:
        self._living: frozenset[str] = frozenset()
        # Since when each has been gone and nothing was found of it.
        self._nothing_since_s: dict[str, float] = {}
        self._all_again_s = 0.0
        self._is_all = True

    def begin(self, living: Iterable[str], registered: Iterable[str], now_s: float) -> list[str]:
        """Begin a look; return whose claims it need not look at, beside those of the living.

        Args:
            registered: whoever has a lease, over or not.
        """
        now_living = frozenset(living)
        # In their order, so that the first ones are forgotten first on every run.
        for one in sorted((self._living | frozenset(registered)) - now_living):
            self._nothing_since_s.setdefault(one, now_s)
        self._living = now_living
        for one in now_living & self._nothing_since_s.keys():
            del self._nothing_since_s[one]
        while len(self._nothing_since_s) > REMEMBERED:
            del self._nothing_since_s[next(iter(self._nothing_since_s))]
        self._is_all = now_s >= self._all_again_s
        return [] if self._is_all else self._settled(now_s)

    def found(self, owners: Collection[str], now_s: float, *, is_complete: bool) -> None:
        """Take in whose claims a look has found.

        Args:
            is_complete: whether there are no more.
        """
        for one in self._nothing_since_s:
            if one in owners or not is_complete:
                self._nothing_since_s[one] = now_s

    def ended(self, began_s: float, now_s: float) -> None:
        """Note the end of a look, also of one that the database gave up on."""
        if self._is_all:
            self._all_again_s = now_s + pause_unless_quick_s(now_s - began_s)

    def _settled(self, now_s: float) -> list[str]:
        return [
            one
            for one, since_s in self._nothing_since_s.items()
            if now_s - since_s >= SETTLED_AFTER_S
        ]
