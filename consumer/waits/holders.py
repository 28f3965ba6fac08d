"""Who of the workers that wait records name is alive, by their heartbeats in Redis."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from feedback.clock import monotonic_s
from feedback.errors import RedisUnavailable

# A living worker beats three times within the time that its heartbeat lasts: a Redis that has come
# back empty knows of it after a third.
GRACE = 0.5
ASK_EVERY_S = 0.5


class Heartbeats(Protocol):
    """Where workers say that they live."""

    def alive(self, worker_ids: Collection[str]) -> set[str]: ...


class Holders:
    """Remembers since when a worker was not heard of. Belongs to one thread.

    Args:
        store: the heartbeats.
        heartbeat_ttl_s: how long one of them lasts.
    """

    def __init__(self, store: Heartbeats, *, heartbeat_ttl_s: float) -> None:
        self._store = store
        self._grace_s = GRACE * heartbeat_ttl_s
        self._silent_since_s: dict[str, float] = {}
        self._asked_s = float("-inf")
        self._living: set[str] = set()

    def living(self, workers: Collection[str]) -> set[str]:
        """Return which of these are alive, or were until a moment ago.

        Args:
            workers: all that are asked about now; of others what is known is forgotten.

        Raises:
            RedisUnavailable: nobody knows.
        """
        now_s = monotonic_s()
        known = self._living | self._silent_since_s.keys()
        if now_s - self._asked_s >= ASK_EVERY_S or not known >= {*workers}:
            self._ask(workers, now_s)
        recent = {
            one for one, since_s in self._silent_since_s.items() if now_s - since_s < self._grace_s
        }
        return (self._living | recent) & {*workers}

    def _ask(self, workers: Collection[str], now_s: float) -> None:
        try:
            self._living = self._store.alive(workers) if workers else set()
        except RedisUnavailable:
            # It may come back empty: whoever was silent before has to be heard of anew.
            self._silent_since_s = {}
            self._living = set()
            raise
        self._asked_s = now_s
        silent = sorted({*workers} - self._living)
        self._silent_since_s = {one: self._silent_since_s.get(one, now_s) for one in silent}
