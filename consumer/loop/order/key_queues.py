"""Requests that wait behind another one of their key, in this worker. Pure but for its own state.

The keys that are taken are not kept up by events but read anew from the requests in flight. A key
whose request has gone, for any reason, is free, so no queue can be forgotten. Whether the next one
may run, the journal says; a queue that it held back looks again after a while, and at once when
something of its key ends here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import islice

from consumer.handlers.delivery import Delivery
from consumer.handlers.order_keys import Key, lane_of

# How long a key is left alone that another worker has, or that waits for its next run: at least
# so long that a busy key costs few claims, at most so long that an end elsewhere is soon seen.
LOOK_AFTER_S = (0.5, 5.0)
# A limit of requests alone would let large ones fill the memory.
LIMIT_BYTES = 64 * 1024 * 1024
# A request that collapses waits for others of its key until none has come for so long, and at most
# so long: a little longer than two polls are apart.
QUIET_S = 0.05
GATHER_S = 0.25

# The id, the payload and its topic, the wake-ups: two records of a request may be two things.
QueuedName = tuple[str, str, int]


@dataclass(slots=True)
class _KeyQueue:
    waiting: OrderedDict[QueuedName, Delivery] = field(default_factory=OrderedDict)
    look_at_s: float = 0.0
    since_s: float = 0.0
    ripe_at_s: float = 0.0


class KeyQueues:
    """The requests that wait for their key, each behind those that came before it.

    Belongs to the loop's thread, but for methods that say otherwise.

    Args:
        limit: pause a topic when this many of its requests wait for their keys. Requests that were
            read before are taken in all the same, in their places: else all that came with them
            would wait too.
        limit_bytes: the same for their keys and values together.

    Attributes:
        full: topics of which so many wait, until half of them have gone. For any thread.
    """

    def __init__(self, limit: int, limit_bytes: int = LIMIT_BYTES) -> None:
        self.limit = limit
        self._limit_bytes = limit_bytes
        self._held_bytes: dict[str, int] = {}
        self._queues: dict[Key, _KeyQueue] = {}
        self._busy: dict[Key, set[str]] = {}
        self._free: dict[Key, None] = {}
        self._looks: list[tuple[float, Key]] = []
        self._held: dict[str, int] = {}
        self.full: frozenset[str] = frozenset()
        self._is_used = False

    def __len__(self) -> int:
        return sum(self._held.copy().values())

    @property
    def held(self) -> Mapping[str, int]:
        """How many wait, by topic; a copy, for any thread."""
        return self._held.copy()

    @property
    def waiting(self) -> list[Delivery]:
        """The waiting requests; a copy, for any thread."""
        return [
            one for queue in list(self._queues.values()) for one in list(queue.waiting.values())
        ]

    def note(self, in_hand: Iterable[Delivery]) -> None:
        """Take in the requests in flight now; call it before any other method."""
        if not self._is_used:
            return  # a worker without ordered handlers pays nothing
        busy: dict[Key, set[str]] = {}
        for one in in_hand:
            key = lane_of(one)
            if key is not None:
                busy.setdefault(key, set()).add(one.request_id)
        for key in self._busy:
            if key not in busy:
                self._set_free(key)
        for key in busy:
            self._free.pop(key, None)
        self._busy = busy

    def admits(self, one: Delivery) -> bool:
        """Whether a request may be claimed now; if not, it waits here from now on.

        A retry that is due always may: its key waits for it. So may a request that is resent while
        it is in flight: it is only answered.
        """
        key = lane_of(one)
        if key is None:
            return True
        self._is_used = True
        busy = self._busy.get(key, ())
        if not (one.wakes or one.request_id in busy) and (busy or key in self._queues):
            self._add(self._queues.setdefault(key, _KeyQueue()), one)
            return False
        self._free.pop(key, None)
        self._busy.setdefault(key, set()).add(one.request_id)
        return True

    def gather(self, one: Delivery, now_s: float) -> bool:
        """Whether a request that collapses may be claimed now; if not, it waits here for others.

        As for `admits`: a retry that is due may, and a request that is resent while it is in
        flight.
        """
        key = lane_of(one)
        if key is None or one.wakes or one.request_id in self._busy.get(key, ()):
            return self.admits(one)
        self._is_used = True
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = _KeyQueue(since_s=now_s)
            if not self._busy.get(key):
                self._free[key] = None
        self._add(queue, one)
        queue.ripe_at_s = min(now_s + QUIET_S, queue.since_s + GATHER_S)
        return False

    def names(self, key: Key) -> tuple[QueuedName, ...]:
        """Return the requests that wait for a key, by name."""
        queue = self._queues.get(key)
        return () if queue is None else tuple(queue.waiting)

    def those(self, key: Key, names: Iterable[QueuedName]) -> list[Delivery]:
        """Return those that still wait, in their order."""
        queue = self._queues.get(key)
        if queue is None:
            return []
        return [queue.waiting[name] for name in names if name in queue.waiting]

    def drop(self, ended: Iterable[Delivery]) -> None:
        """Remove requests that ended while they waited."""
        for one in ended:
            key = lane_of(one)
            queue = None if key is None else self._queues.get(key)
            if key is None or queue is None or queue.waiting.pop(_name(one), None) is None:
                continue
            self._count(one, -1)
            if not queue.waiting:
                del self._queues[key]
                self._free.pop(key, None)

    def hold_back(self, one: Delivery, *, now_s: float, for_s: float) -> None:
        """Put a request back at the head of its queue that the journal does not let run yet.

        Args:
            for_s: how long it will have to wait, as far as the journal knows.
        """
        key = lane_of(one)
        if key is None:
            raise ValueError("it keeps no order")
        self._busy.get(key, set()).discard(one.request_id)
        if not self._busy.get(key):
            self._busy.pop(key, None)
        self._free.pop(key, None)
        queue = self._queues.setdefault(key, _KeyQueue())
        self._add(queue, one)
        queue.waiting.move_to_end(_name(one), last=False)
        least_s, most_s = LOOK_AFTER_S
        queue.look_at_s = now_s + min(most_s, max(least_s, for_s))
        heappush(self._looks, (queue.look_at_s, key))

    def take(self, most: int, now_s: float, may_take: Callable[[str], bool]) -> list[Delivery]:
        """Remove and return heads whose keys are free.

        Args:
            may_take: whether requests of a topic are taken now.
        """
        self._look(now_s)
        chosen = [
            key for key in self._free if may_take(key[0]) and self._queues[key].ripe_at_s <= now_s
        ]
        return [self._pop(key, now_s) for key in islice(chosen, max(0, most))]

    def next_look_s(self, now_s: float, may_take: Callable[[str], bool]) -> float | None:
        """Return the monotonic time at which something may be taken; None when nothing waits."""
        self._look(now_s)
        ripe_s = min(
            (self._queues[key].ripe_at_s for key in self._free if may_take(key[0])),
            default=None,
        )
        if ripe_s is not None and (ripe_s <= now_s or not self._looks):
            return max(now_s, ripe_s)
        look_s = self._looks[0][0] if self._looks else None
        return look_s if ripe_s is None or look_s is None else min(look_s, ripe_s)

    def take_all(self) -> list[Delivery]:
        """Remove and return everything that waits."""
        waiting = self.waiting
        self._queues.clear()
        self._free.clear()
        self._looks.clear()
        for one in waiting:
            self._count(one, -1)
        return waiting

    def _add(self, queue: _KeyQueue, one: Delivery) -> None:
        known = queue.waiting.get(_name(one))
        if known is None:
            queue.waiting[_name(one)] = one
            self._count(one, 1)
        elif known.envelope.attempt < one.envelope.attempt:
            # Sent again while it waits: it answers to the newest attempt, and keeps its place. With
            # the resend's deadline its record would pass for one that names a deadline, and run
            # where it was pruned; so would a resend that no longer says which record it repeats.
            newest = one.envelope._replace(
                deadline_at=known.envelope.deadline_at,
                first=known.envelope.first or one.envelope.first,
            )
            queue.waiting[_name(one)] = known._replace(envelope=newest)

    def _pop(self, key: Key, now_s: float) -> Delivery:
        queue = self._queues[key]
        queue.since_s = now_s
        del self._free[key]
        _, one = queue.waiting.popitem(last=False)
        self._count(one, -1)
        if not queue.waiting:
            del self._queues[key]
        self._busy.setdefault(key, set()).add(one.request_id)
        return one

    def _count(self, one: Delivery, change: int) -> None:
        topic = one.handler.topic
        self._held[topic] = self._held.get(topic, 0) + change
        self._held_bytes[topic] = self._held_bytes.get(topic, 0) + change * _size(one)
        is_full = topic in self.full
        if not is_full and self._reaches(topic, 1):
            self.full |= {topic}
        # Not at the first that goes: reading would stop and go on with each request.
        elif is_full and not self._reaches(topic, 2, least=1):
            self.full -= {topic}

    def _reaches(self, topic: str, part: int, *, least: int = 0) -> bool:
        """Whether as much waits as that part of a limit, or by so many more."""
        held, size_bytes = self._held[topic], self._held_bytes[topic]
        is_many = held >= self.limit // part + least
        return is_many or size_bytes >= self._limit_bytes // part + least

    def _set_free(self, key: Key) -> None:
        if key in self._queues:
            self._free[key] = None

    def _look(self, now_s: float) -> None:
        """Set requests free that have waited long enough."""
        while self._looks and self._looks[0][0] <= now_s:
            _, key = heappop(self._looks)
            queue = self._queues.get(key)
            if queue is not None and queue.look_at_s <= now_s and key not in self._busy:
                self._free[key] = None


def _size(one: Delivery) -> int:
    return len(one.record.key or b"") + len(one.record.value or b"")


def _name(one: Delivery) -> QueuedName:
    return one.request_id, f"{one.payload_sha256} {one.record.topic}", one.wakes
