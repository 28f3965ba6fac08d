"""Chooses by Redis which worker of a group reports an event that all of them see."""

from __future__ import annotations

from collections.abc import Callable

from consumer.features.alerts.event import AlertKind
from consumer.features.alerts.grouping import Alert
from feedback.errors import RedisUnavailable
from feedback.redis.server import guarded
from feedback.redis.store import StatusStore

# Only the worker that saw one of the others can report it.
_SEEN_BY_ALL = (AlertKind.AGE, AlertKind.HINDERED, AlertKind.PAUSED)


class Turns:
    """Takes turns with the other workers of the group.

    Args:
        redis_away: whether asking it would only cost time.
        every_s: for how long no other worker sends the same alert.
    """

    def __init__(
        self, store: StatusStore, *, redis_away: Callable[[], bool], worker_id: str, every_s: float
    ) -> None:
        self._store = store
        self._redis_away = redis_away
        self._worker_id = worker_id
        self._every_ms = int(every_s * 1000)

    def is_mine(self, alert: Alert) -> bool:
        """Whether this worker sends it; without Redis every worker does."""
        if alert.kind not in _SEEN_BY_ALL or self._redis_away():
            return True
        key = f"{self._store.prefix}alert:{alert.kind}:{alert.topic}"
        try:
            with guarded():
                taken = self._store.redis.set(key, self._worker_id, nx=True, px=self._every_ms)
        except RedisUnavailable:
            return True
        return bool(taken)
