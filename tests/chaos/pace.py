"""How fast clients send: so many a second, or so many open at a time. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Pace(Protocol):
    """Says how many requests may be sent now."""

    def room(self, *, sent: int, open_: int, elapsed_s: float) -> int:
        """Return how many.

        Args:
            sent: sent so far. open_: of these, not yet told. elapsed_s: since the first.
        """


@dataclass(frozen=True, slots=True)
class Rate:
    """An open loop: clients come at a rate, whatever becomes of those before.

    >>> Rate(50).room(sent=60, open_=60, elapsed_s=2.0)
    40
    """

    per_s: float

    def room(self, *, sent: int, open_: int, elapsed_s: float) -> int:
        """Return how many are due."""
        return max(0, int(elapsed_s * self.per_s) - sent)


@dataclass(frozen=True, slots=True)
class Window:
    """A closed loop that keeps workers busy.

    >>> Window(64).room(sent=1000, open_=60, elapsed_s=2.0)
    4
    """

    most_open: int

    def room(self, *, sent: int, open_: int, elapsed_s: float) -> int:
        """Return how many may come for those that were told."""
        return max(0, self.most_open - open_)
