"""The bounded buffer between intake and worker: committed requests that wait for a slot."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from consumer.handlers.delivery import Delivery, RefusedRecord
from feedback.observer import Observer

Received = Delivery | RefusedRecord


class Buffer:
    """Holds at most `limit` requests; those in it when the process dies are LOST and resent.

    Args:
        limit: requests, more than 0.
        observers: hear of deliveries, and that something is taken.
    """

    def __init__(self, limit: int, observers: Sequence[Observer] = ()) -> None:
        self.limit = limit
        self._observers = observers
        self._waiting: deque[Received] = deque()
        self._arrivals: dict[object, Sequence[Received]] = {}
        self._room = threading.Condition()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def room(self) -> int:
        """How many more may be put."""
        return max(0, self.limit - len(self._waiting))

    @property
    def waiting(self) -> list[Received]:
        """The waiting requests, the oldest first; a copy."""
        with self._room:
            return [*self._waiting]

    @property
    def arriving(self) -> list[Received]:
        """The requests of all arrivals, committed or not, put or not yet; a copy."""
        with self._room:
            return [one for received in self._arrivals.values() for one in received]

    @contextmanager
    def arrival(self, received: Sequence[Received]) -> Iterator[None]:
        """Show requests as arriving, to all that look, while a reader commits and puts them."""
        name = object()
        with self._room:
            self._arrivals[name] = received
        try:
            yield
        finally:
            with self._room:
                del self._arrivals[name]

    def put(self, received: Iterable[Received]) -> None:
        """Add requests behind those that wait."""
        those = list(received)
        with self._room:
            self._waiting.extend(those)
        if self._observers:
            for topic, count in Counter(one.record.topic for one in those).items():
                for one in self._observers:
                    one.counted("deliveries", topic, count)

    def take(self, most: int) -> list[Received]:
        """Remove and return the oldest, at most `most`."""
        with self._room:
            taken = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
            if taken:
                self._room.notify_all()
        if taken:
            for one in self._observers:
                one.begins("dispatch")
        return taken

    def remove(self, taken: Iterable[Received]) -> None:
        """Remove requests that were taken from here otherwise."""
        gone = {id(one) for one in taken}
        if not gone:
            return
        with self._room:
            self._waiting = deque(one for one in self._waiting if id(one) not in gone)
            self._room.notify_all()

    def take_older_than(self, buffered_s: float) -> list[Received]:
        """Remove and return the deliveries that were read before `buffered_s` (monotonic).

        A refused record stays: nobody waits for it, and its row is still to be written.
        """
        with self._room:
            old: list[Received] = []
            staying: deque[Received] = deque()
            for one in self._waiting:
                is_old = isinstance(one, Delivery) and one.buffered_s < buffered_s
                (old if is_old else staying).append(one)
            self._waiting = staying
            if old:
                self._room.notify_all()
            return old

    def wait_for_room(self, timeout_s: float, *, at_least: int = 1) -> bool:
        """Return whether there is room for `at_least`, after at most `timeout_s`."""
        with self._room:
            return self._room.wait_for(lambda: self.room >= at_least, timeout_s)

    def wake(self) -> None:
        """End the waits, so that a stop is seen."""
        with self._room:
            self._room.notify_all()
