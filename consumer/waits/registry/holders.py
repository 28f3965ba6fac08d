"""Which holders of requests live: their heartbeats are in Redis.

One that has none may have lost it together with Redis' data, and beats again within a third of its
length: so a holder is gone when it was missing all through one whole length of a heartbeat.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from consumer.waits.registry.facts import NOBODY
from feedback.redis_server import execute, guarded
from feedback.store import StatusStore

AT_ONCE = 500


class Holders(NamedTuple):
    """Holders, sorted.

    Args:
        gone: those that certainly do not live, and nobody.
        living: those that have a heartbeat.
        missing: those that have none, and perhaps will again in a moment.
    """

    gone: tuple[str, ...]
    living: tuple[str, ...]
    missing: tuple[str, ...]


class Heartbeats:
    """Looks for heartbeats. Belongs to one thread.

    Args:
        store: of the group.
        heartbeat_ttl_s: how long a heartbeat lasts.
    """

    def __init__(self, store: StatusStore, *, heartbeat_ttl_s: float) -> None:
        self._store = store
        self._ttl_s = heartbeat_ttl_s
        self._missing_since_s: dict[str, float] = {}

    def look(self, holders: Collection[str], *, now_s: float) -> Holders:
        """Sort holders.

        Args:
            now_s: monotonic.

        Raises:
            RedisUnavailable: nobody is known to be gone now, whoever was missing before.
        """
        # Nobody is asked for as well: without Redis nothing is known, of anybody.
        asked = sorted(set(holders))
        gone: list[str] = []
        living: list[str] = []
        missing: list[str] = []
        for name, has_heartbeat in zip(asked, self._have_heartbeats(asked), strict=True):
            if name == NOBODY:
                gone.append(name)
                continue
            if has_heartbeat:
                self._missing_since_s.pop(name, None)
                living.append(name)
                continue
            since_s = self._missing_since_s.setdefault(name, now_s)
            (gone if now_s - since_s >= self._ttl_s else missing).append(name)
        return Holders(tuple(gone), tuple(living), tuple(missing))

    def forget(self) -> None:
        """Begin anew: nobody was looking for a while, or Redis was away."""
        self._missing_since_s.clear()

    def _have_heartbeats(self, names: Sequence[str]) -> list[bool]:
        found: list[bool] = []
        with guarded():
            for some in _parts(names):
                pipe = self._store.redis.pipeline(transaction=False)
                for name in some:
                    pipe.exists(self._store.worker_key(name))
                found += map(bool, execute(pipe))
        return found


def _parts(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for at in range(0, len(names), AT_ONCE):
        yield names[at : at + AT_ONCE]
