"""The counterparty: it counts what handlers did outside, which no log can deny."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

from tests.simulation.requests import order_of


class Key(NamedTuple):
    """An idempotency key: the request, and how often its keys were voided."""

    request_id: str
    voids: int


class KeyRefused(Exception):
    """The bank refuses this key from now on."""


class Bank:
    """Charges whoever asks, as often as it is asked, unless the key is known and it is idempotent.

    Attributes:
        charges: how many charges each request has.
        orders: how many charges each order has, by whichever of its requests.
        inside: the requests whose effects are writes in the journal's own database.
    """

    def __init__(self, on_charge: Callable[[str], None]) -> None:
        self.charges: dict[str, int] = defaultdict(int)
        self.orders: dict[str, int] = defaultdict(int)
        self.inside: set[str] = set()
        self._on_charge = on_charge
        self._keys: set[Key] = set()
        self._voided: set[Key] = set()

    def charge(self, key: Key, *, is_keyed: bool, idempotent: bool) -> None:
        """Charge, and count it.

        Args:
            is_keyed: whether the caller says the key at all.
            idempotent: whether what is known by it is charged no more.

        Raises:
            KeyRefused: the key was voided.
        """
        if is_keyed and key in self._voided:
            raise KeyRefused
        if idempotent and key in self._keys:
            return
        if is_keyed:
            self._keys.add(key)
        self.count(key.request_id)

    def count(self, request_id: str) -> None:
        """Count an effect; the watch says whether it was to be."""
        self.charges[request_id] += 1
        self.orders[order_of(request_id)] += 1
        self._on_charge(request_id)

    def count_inside(self, request_id: str) -> None:
        """Count an effect that is a write in the journal's own database."""
        self.inside.add(request_id)
        self.count(request_id)

    def undo(self, request_id: str, stood: int) -> None:
        """Let so many effects of a request stand: the database has forgotten the others."""
        self.orders[order_of(request_id)] -= self.charges[request_id] - stood
        self.charges[request_id] = stood

    def knows(self, key: Key) -> bool:
        """Whether there was a charge under this key."""
        return key in self._keys

    def void(self, key: Key) -> None:
        """Refuse the key from now on."""
        self._voided.add(key)
