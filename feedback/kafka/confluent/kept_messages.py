"""Messages that librdkafka has given to us, and that nobody has polled yet. Pure."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable
from typing import Any

from feedback.kafka.values import Partition

# While there are so many, or so much, librdkafka is asked for no more.
_MANY = 5_000
_MUCH_BYTES = 16_777_216
# Of a message beside its key and value.
_AROUND_BYTES = 500


class KeptMessages:
    """Keeps messages and events of partitions in the order in which they were fetched.

    librdkafka drops what it has fetched of a partition that is paused. When all are resumed it
    begins with the same one each time. Of a worker whose buffer is full again and again, the last
    partitions would wait for the whole backlog of the first.
    """

    def __init__(self) -> None:
        self._messages: deque[Any] = deque()
        self._counts: Counter[Partition] = Counter()
        self._bytes = 0

    @property
    def has_room(self) -> bool:
        """Whether more is to be kept."""
        return len(self._messages) < _MANY and self._bytes < _MUCH_BYTES

    @property
    def partitions(self) -> Collection[Partition]:
        """The partitions of which there is anything."""
        return self._counts.keys()

    def keep(self, messages: Iterable[Any]) -> None:
        """Add messages behind those that are there."""
        for one in messages:
            self._messages.append(one)
            self._counts[_place_of(one)] += 1
            self._bytes += _size_of(one)

    def take(self, most: int, *, but_of: Collection[Partition]) -> list[Any]:
        """Remove and return the first ones, but for those of some partitions."""
        if self._counts.keys() <= {*but_of}:
            return []
        taken: list[Any] = []
        passed: list[Any] = []
        while self._messages and len(taken) < most:
            one = self._messages.popleft()
            (passed if _place_of(one) in but_of else taken).append(one)
        self._messages.extendleft(reversed(passed))
        self._forget(taken)
        return taken

    def drop(self, partitions: Collection[Partition]) -> None:
        """Forget those of some partitions: they are read again, or are another member's."""
        if self._counts.keys().isdisjoint(partitions):
            return
        gone = [one for one in self._messages if _place_of(one) in partitions]
        self._messages = deque(one for one in self._messages if _place_of(one) not in partitions)
        self._forget(gone)

    def _forget(self, gone: Iterable[Any]) -> None:
        for one in gone:
            place = _place_of(one)
            self._counts[place] -= 1
            if not self._counts[place]:
                del self._counts[place]
            self._bytes -= _size_of(one)


def _place_of(message: Any) -> Partition:
    return message.topic(), message.partition()


def _size_of(message: Any) -> int:
    # Its headers are not asked for: librdkafka would make all of them anew.
    return _AROUND_BYTES + len(message.key() or b"") + len(message.value() or b"")
