"""How long a look that may become slow is not repeated. Pure.

While a long snapshot is open (a backup, an audit), the database reads in its index all that has
waited since.

While a long snapshot is open a look at the whole index is slow (`pacing`). So after one full look,
the next ones read only rows that have ended since, and rows that still waited then. The next full
look follows after a pause in proportion to its cost: where a full look is quick, every look is one.
"""

from __future__ import annotations

# An end is written with its time and committed a while later; and the clock here and the database's
# need not go alike.
MARGIN_S = 10.0


class LookPacing:
    """Where the looks of one thread are.

    Args:
        now_s: monotonic time of the start: rows that ended before are found by a full look.
    """

    def __init__(self, now_s: float) -> None:
        self._since_s = now_s
        self._all_again_s = now_s
        self.is_all = True

    def begin(self, now_s: float) -> int:
        """Begin a look: return the largest age, in ms, of the rows that it finds."""
        self.is_all = now_s >= self._all_again_s
        return EVER_MS if self.is_all else self.age_ms(now_s)

    def age_ms(self, now_s: float) -> int:
        """Return how many ms ago the oldest row of this look has ended."""
        return max(0, int(1000 * (now_s - self._since_s + MARGIN_S)))

    def looked(self, began_s: float, now_s: float, *, oldest_ms: int) -> None:
        """Note the end of a look.

        Args:
            oldest_ms: how long the oldest that it found has waited; 0 where nothing waits.
        """
        self._since_s = began_s - oldest_ms / 1000
        self.ended(began_s, now_s)

    def ended(self, began_s: float, now_s: float) -> None:
        """Note the end of a look, also of one that the database gave up on."""
        if self.is_all:
            self._all_again_s = now_s + pause_after_look_s(now_s - began_s)


# In milliseconds, as far back as a look can go: older than any row.
EVER_MS = 10**14
# The largest share of the time that such looks may take.
SHARE = 0.02
# A look that takes no longer is repeated as often as its caller likes.
QUICK_S = 0.1


def pause_after_look_s(took_s: float) -> float:
    """Return the seconds after a look that took so many seconds."""
    return took_s / SHARE


def pause_unless_quick_s(took_s: float) -> float:
    """Return the same, and 0 after a look that was quick."""
    return 0.0 if took_s < QUICK_S else pause_after_look_s(took_s)
