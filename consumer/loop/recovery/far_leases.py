"""Leases that the database's clock has moved away from: which of them are over. Pure but for `now`.

A lease is written as the database's clock + `lease_s`, and renewed three times within its length.
One that ends later than that, and stays as it is for a whole lease by the monotonic clock of who
looks, is of a dead worker, and the clock was set back.
"""

from __future__ import annotations

from collections.abc import Sequence

from consumer.journal import FarLease


class FarLeases:
    """Remembers since when it sees each of them. Belongs to one thread.

    Args:
        lease_s: how long a lease is.
    """

    def __init__(self, *, lease_s: float) -> None:
        self._lease_s = lease_s
        self._since_s: dict[FarLease, float] = {}

    def over(self, found: Sequence[FarLease], now_s: float) -> list[FarLease]:
        """Return those that were not renewed for a whole lease.

        Args:
            found: all that end later than a renewal by now can have said.
            now_s: monotonic now.
        """
        self._since_s = {one: self._since_s.get(one, now_s) for one in found}
        return [one for one, since_s in self._since_s.items() if now_s - since_s >= self._lease_s]
