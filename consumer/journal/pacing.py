"""How long a look that may become slow is not repeated. Pure.

While a long snapshot is open (a backup, an audit), the database reads in its index all that has
waited since.
"""

from __future__ import annotations

# Of the time: what such looks take at most.
SHARE = 0.02


def pause_s(took_s: float) -> float:
    """Return the seconds after a look that took so many seconds."""
    return took_s / SHARE
