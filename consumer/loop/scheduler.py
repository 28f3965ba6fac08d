"""Chooses the next claims: retries that are due, requests whose key is free, and then the buffer.

Between the buffer and the claims some requests have to wait although slots are free: those of a key
that has one in hand (`consumer.loop.order`), and those of a topic that is paused. They wait here,
and are given up like those in the buffer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from typing import TypeGuard

from consumer.handlers.delivery import Delivery
from consumer.handlers.order_keys import lane_of
from consumer.intake.buffer import Buffer, Received
from consumer.intake.gate import Gate, Gates
from consumer.loop.due_quota import DueQuota
from consumer.loop.order.key_queues import LIMIT_BYTES, KeyQueues
from feedback.clock import monotonic_s
from feedback.logs import EventLog

log = EventLog("onceward.worker")

ORDER_HELD_LIMIT = 1000
# Of retries that are due on paused topics; a sweep wakes up those beyond it.
DUE_ASIDE_LIMIT = 1000


class Scheduler:
    """Chooses the next claims. Belongs to the loop's thread, but for methods that say otherwise.

    Args:
        buffer: committed requests, as the intake brings them.
        due: retries that are due.
        order_held_limit: pause a topic when this many of its requests wait for their keys. Those
            that the buffer has by then wait as well, so that all else in the buffer goes on.
        order_held_limit_bytes: the same for their keys and values together.
        gates: close topics; committed requests of a closed one wait, and go first when it opens.
        gathering: topics whose requests wait a little for others of their key.

    Attributes:
        due: retries that are due.
        full: topics of which nothing more is to be read, since as many as may wait for their keys.
            For any thread.
        given_up: ordered requests that were given up because the worker ends.
    """

    def __init__(
        self,
        buffer: Buffer,
        due: Buffer | None = None,
        *,
        order_held_limit: int = ORDER_HELD_LIMIT,
        order_held_limit_bytes: int = LIMIT_BYTES,
        gates: Sequence[Gate] = (),
        gathering: Collection[str] = (),
    ) -> None:
        self._buffer = buffer
        self.due = Buffer(1) if due is None else due
        self._due_quota = DueQuota()
        self._gates = Gates(gates)
        self._gathering = frozenset(gathering)
        self._aside: deque[Delivery] = deque()
        self._due_aside: deque[Delivery] = deque()
        self.key_queues = KeyQueues(order_held_limit, order_held_limit_bytes)
        self.full: frozenset[str] = frozenset()
        self.given_up: list[Delivery] = []
        self._stuck_since_s: float | None = None

    @property
    def backlog(self) -> bool:
        """Whether requests queue for slots, and could be taken."""
        return len(self._buffer) > 0

    @property
    def has_more(self) -> bool:
        """Whether anything is left that a free slot would take."""
        return len(self._buffer) > 0 or len(self.due) > 0

    @property
    def waiting(self) -> list[Received]:
        """Committed requests without a claim, retries left out; a copy, for any thread."""
        held = (one for one in [*self.key_queues.waiting, *list(self._aside)] if not one.wakes)
        return [*held, *self._buffer.waiting]

    @property
    def arriving(self) -> list[Received]:
        """Requests on their way into the buffer, committed or not yet; a copy, for any thread."""
        return self._buffer.arriving

    def __len__(self) -> int:
        return len(self._buffer) + len(self.key_queues) + len(self._aside)

    # taking --------------------------------------------------------------------------------

    def take(self, room: int, now_s: float, in_hand: Iterable[Delivery]) -> list[Received]:
        """Remove and return requests that may be claimed now, at most `room`.

        Args:
            in_hand: the requests that this worker claims or runs.
        """
        self.key_queues.note(in_hand)
        taken: list[Received] = []
        taken += self._take_due(room, now_s)
        taken += self.key_queues.take(
            self._room_for_queues(room - len(taken)), now_s, self._may_take
        )
        while len(taken) < room:
            most = room - len(taken)
            if resumed := self._resumed(self._aside, most):
                taken += [one for one in resumed if self._enters(one, now_s)]
            elif found := self._buffer.take(most):
                self._due_quota.earn(len(found))
                taken += [one for one in found if self._admits(one, now_s)]
            else:
                break
        self._note_full()
        return taken

    def gather(self, now_s: float) -> None:
        """Let all that the buffer has of topics that collapse wait for its key, for others of it.

        Whether slots are free or not: the requests that a run stands in for must be here when it
        begins.
        """
        if not self._gathering:
            return
        self._note_full()
        if not len(self._buffer):
            return
        found = [one for one in self._buffer.waiting if self._gathers(one)]
        # In the queue before it is out of the buffer: who looks for it meanwhile finds it.
        self._buffer.remove([one for one in found if not self.key_queues.gather(one, now_s)])
        self._note_full()

    def _gathers(self, one: Received) -> TypeGuard[Delivery]:
        if not isinstance(one, Delivery) or one.handler.topic not in self._gathering:
            return False
        if lane_of(one) is None:
            return False
        return not (self._gates.is_closed(one.handler.topic) or self._is_aside(one.handler.topic))

    def probe(self, topic: str) -> Delivery | None:
        """Remove and return one request of a paused topic, to see how it does now."""
        for aside in (self._due_aside, self._aside):
            for one in list(aside):
                if one.handler.topic == topic:
                    aside.remove(one)
                    if self.key_queues.admits(one):
                        return one
        heads = self.key_queues.take(1, monotonic_s(), lambda one: one == topic)
        return heads[0] if heads else None

    def hold_back(self, one: Delivery, *, now_s: float, for_s: float) -> None:
        """Let a request wait whose key the journal does not let go on yet.

        Args:
            for_s: how long it will have to wait, as far as the journal knows.
        """
        self.key_queues.hold_back(one, now_s=now_s, for_s=for_s)

    def next_s(self, now_s: float, in_hand: Iterable[Delivery]) -> float | None:
        """Return the monotonic time at which a request that waits for its key may be taken."""
        if not len(self.key_queues):
            return None
        self.key_queues.note(in_hand)
        return self.key_queues.next_look_s(now_s, self._may_take)

    def _room_for_queues(self, room: int) -> int:
        # Of keys that another worker has all claims may be in vain: others get on all the same.
        return (room + 1) // 2 if self.backlog else room

    def _may_take(self, topic: str) -> bool:
        return not self._gates.is_closed(topic)

    def _admits(self, one: Received, now_s: float) -> bool:
        if not isinstance(one, Delivery):
            return True  # it never runs
        if self._gates.is_closed(one.handler.topic) or self._is_aside(one.handler.topic):
            self._aside.append(one)
            return False
        return self._enters(one, now_s)

    def _enters(self, one: Delivery, now_s: float) -> bool:
        if one.handler.topic in self._gathering:
            return self.key_queues.gather(one, now_s)
        return self.key_queues.admits(one)

    def _is_aside(self, topic: str) -> bool:
        """Whether something of a topic waits that goes first: the pause may end at any moment."""
        return any(one.handler.topic == topic for one in self._aside)

    def _take_due(self, room: int, now_s: float) -> list[Delivery]:
        """Return retries; while others queue for slots, only their share."""
        is_busy = self.backlog
        if is_busy:
            room = self._due_quota.room(room, now_s)
        taken = self._resumed(self._due_aside, room)
        while len(taken) < room:
            found = self.due.take(room - len(taken))
            if not found:
                break
            for one in found:
                if not isinstance(one, Delivery):
                    continue
                if not self._gates.is_closed(one.handler.topic):
                    taken.append(one)
                elif len(self._due_aside) < DUE_ASIDE_LIMIT:
                    self._due_aside.append(one)
        if is_busy:
            self._due_quota.spend(len(taken))
        return [one for one in taken if self.key_queues.admits(one)]

    def _resumed(self, aside: deque[Delivery], room: int) -> list[Delivery]:
        """Remove and return requests of topics that have opened, in their order."""
        if not aside or room <= 0:
            return []
        resumed = [one for one in aside if not self._gates.is_closed(one.handler.topic)][:room]
        for one in resumed:
            aside.remove(one)
        return resumed

    def _note_full(self) -> None:
        before, self.full = self.full, self.key_queues.full
        if before is self.full:
            return
        held, limit = self.key_queues.held, self.key_queues.limit
        for topic in self.full - before:
            log.warning("order.full", topic=topic, held=held[topic], limit=limit)
        for topic in before - self.full:
            log.info("order.has_room", topic=topic, held=held[topic])

    # giving up -----------------------------------------------------------------------------

    def take_all(self) -> list[Received]:
        """Remove and return everything that is not claimed; retries that are due stay.

        For a worker that ends: the next owners of its partitions read ordered requests again.
        """
        aside, self._aside = list(self._aside), deque()
        found = [*self.key_queues.take_all(), *aside, *self._buffer.take(len(self._buffer))]
        self.given_up += [one for one in found if isinstance(one, Delivery) and lane_of(one)]
        return found

    def take_stuck(self, now_s: float, wait_s: float) -> list[Received]:
        """Remove and return requests that have waited too long for a journal that grants nothing.

        A request that waits for its key waits for the journal only from the moment its key is free.
        """
        if self._stuck_since_s is None:
            self._stuck_since_s = now_s
        held: list[Received] = []
        if now_s - self._stuck_since_s >= wait_s:
            held += [*self.key_queues.take_all(), *self._aside]
            self._aside.clear()
        return [
            *held,
            *self.take_aside_older_than(now_s - wait_s),
            *self._buffer.take_older_than(now_s - wait_s),
        ]

    def goes_on(self) -> None:
        """Hear that the journal answers."""
        self._stuck_since_s = None

    def take_aside_older_than(self, buffered_s: float) -> list[Delivery]:
        """Remove and return requests of paused topics that wait since before `buffered_s`.

        Ordered requests stay: sent again they would have a place behind all later ones.
        """
        old = [one for one in self._aside if one.buffered_s < buffered_s and lane_of(one) is None]
        for one in old:
            self._aside.remove(one)
        return old
