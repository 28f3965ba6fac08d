"""Two clocks by name: monotonic for waiting, UTC epoch for what is stored."""

from __future__ import annotations

import time


def epoch_ms() -> int:
    """Return UTC now as epoch milliseconds; for stored times, never for measuring a wait."""
    return time.time_ns() // 1_000_000


def monotonic_s() -> float:
    """Return seconds of a clock that never steps; for waits and leases, never stored."""
    return time.monotonic()
