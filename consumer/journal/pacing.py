"""How long a look that may become slow is not repeated. Pure.

While a long snapshot is open (a backup, an audit), the database reads in its index all that has
waited since.
"""

from __future__ import annotations

# In milliseconds, as far back as a look can go: older than any row.
EVER_MS = 10**14
# The largest share of the time that such looks may take.
SHARE = 0.02
# A look that takes no longer is repeated as often as its caller likes.
QUICK_S = 0.1


def pause_s(took_s: float) -> float:
    """Return the seconds after a look that took so many seconds."""
    return took_s / SHARE


def pause_unless_quick_s(took_s: float) -> float:
    """Return the same, and 0 after a look that was quick."""
    return 0.0 if took_s < QUICK_S else pause_s(took_s)
