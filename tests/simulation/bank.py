"""The counterparty: it counts what handlers did outside, which no log can deny."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from tests.simulation.processes import Violation


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
    """

    def __init__(self) -> None:
        self.charges: dict[str, int] = defaultdict(int)
        self._keys: set[Key] = set()
        self._voided: set[Key] = set()

    def charge(self, key: Key, *, idempotent: bool) -> None:
        """Charge, and count it.

        Raises:
            KeyRefused: the key was voided.
            Violation: the request was charged before.
        """
        if key in self._voided:
            raise KeyRefused
        if idempotent and key in self._keys:
            return
        self._keys.add(key)
        self.count(key.request_id)

    def count(self, request_id: str) -> None:
        """Count an effect.

        Raises:
            Violation: there was one before.
        """
        self.charges[request_id] += 1
        if self.charges[request_id] > 1:
            raise Violation("an effect happens once", f"{request_id} was charged twice")

    def knows(self, key: Key) -> bool:
        """Whether there was a charge under this key."""
        return key in self._keys

    def void(self, key: Key) -> None:
        """Refuse the key from now on."""
        self._voided.add(key)
