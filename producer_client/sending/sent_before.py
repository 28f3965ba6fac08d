"""Remembers this process's own sends and its view of Redis, in case Redis forgets.

`NotSent` for an id that the caller gave also says that nobody has sent it before: the caller may
then ask for the same under another id. Redis can say so only as long as it forgets nothing, for
which it has a witness (`feedback.redis.memory`). Beyond that, a process remembers the ids that it
sent itself, by any of its clients. It knows that Redis has forgotten when the last request that it
sent is gone there, or a witness that it has seen.

Decided: `NotSent` is raised where neither the witness nor this process objects. One case remains:
another process sent the id, and Redis has lost it. Redis may lose it alone (deleted, or the time of
its last status is over). Or it loses everything while no worker lives to see that, or in the second
before its heartbeat. To raise `SendUnknown` there would raise it for each first send
of a new group, and for each id that is given, for the sake of ids that ended a week ago.
"""

from __future__ import annotations

from collections import deque

from feedback.clock import monotonic_s
from feedback.redis.memory import RedisMemory
from feedback.settings.settings import Settings

MOST_IDS = 10_000


class SentBefore:
    """The sends of one process to one group. Safe to share between threads.

    Args:
        status_ttl_s: for how long Redis stores a status; None: for ever.
    """

    def __init__(self, *, status_ttl_s: float | None = None) -> None:
        # Appending and copying take no lock, which a fork could leave locked.
        self._ids: deque[str] = deque(maxlen=MOST_IDS)
        self._last: tuple[str, float] | None = None
        self._has_seen_witness = False
        self._status_ttl_s = status_ttl_s

    def note(self, request_id: str, *, is_in_redis: bool = False) -> None:
        """Remember that the request may have been sent.

        Args:
            is_in_redis: its status stands there; if it is missing later, Redis has forgotten.
        """
        self._ids.append(request_id)
        if is_in_redis:
            self._last = (request_id, monotonic_s())

    def knows(self, request_id: str) -> bool:
        """Whether this process may have sent the request."""
        return request_id in self._ids.copy()

    @property
    def last(self) -> str | None:
        """The last request of this process that Redis must still know; None: there is none."""
        if self._last is None:
            return None
        request_id, at_s = self._last
        is_kept = self._status_ttl_s is None or monotonic_s() - at_s < self._status_ttl_s / 2
        return request_id if is_kept else None

    def doubt(self, memory: RedisMemory, *, longest_s: float) -> str | None:
        """Return why Redis may have forgotten an id that it does not know; see `RedisMemory`."""
        is_gone = self._has_seen_witness and not memory.is_witnessed
        self._has_seen_witness = self._has_seen_witness or memory.is_witnessed
        if is_gone:
            return "Redis was emptied"
        return memory.doubt(longest_s=longest_s)


_of_groups: dict[tuple[str, str], SentBefore] = {}


def sent_before(settings: Settings) -> SentBefore:
    """Return this process's sends to the group so far, the same for all its clients."""
    where = (settings.redis.url, settings.kafka.group)
    return _of_groups.setdefault(where, SentBefore(status_ttl_s=settings.redis.shortest_ttl_s))
