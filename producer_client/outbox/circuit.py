"""Decides whether to ask a server again that was away a moment ago. Pure, but for its memory."""

from __future__ import annotations

import threading
from dataclasses import dataclass

PAUSE_S = (0.5, 4.0)


@dataclass(slots=True)
class _Open:
    pause_s: float
    until_s: float


class Circuit:
    """Remembers which servers are away: one caller at a time asks again, the others need not wait.

    Safe to share between threads; times are monotonic.
    """

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._lock = threading.Lock()

    def allows(self, name: str, now_s: float) -> bool:
        """Whether to ask it now; while it is away, one caller gets True and asks for all."""
        with self._lock:
            known = self._open.get(name)
            if known is None:
                return True
            if now_s < known.until_s:
                return False
            known.until_s = now_s + known.pause_s
            return True

    def failed(self, name: str, now_s: float) -> bool:
        """Note that it did not answer; say whether it answered before."""
        shortest_s, longest_s = PAUSE_S
        with self._lock:
            known = self._open.get(name)
            pause_s = shortest_s if known is None else min(longest_s, known.pause_s * 2)
            # Many callers may have asked before the first of them knew: that counts as one failure.
            if known is None or now_s >= known.until_s - known.pause_s + shortest_s:
                self._open[name] = _Open(pause_s, now_s + pause_s)
            return known is None

    def worked(self, name: str) -> bool:
        """Note that it answered; say whether it was away before."""
        # Without the lock: this runs with each send, and a key is there or is not.
        return name in self._open and self._open.pop(name, None) is not None
