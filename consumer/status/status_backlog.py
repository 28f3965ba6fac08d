"""Statuses that wait for Redis: the newest of each request, in the order of their coming."""

from __future__ import annotations

from collections.abc import Iterable

from consumer.journal import Row
from consumer.status.status_messages import from_row
from feedback.redis.split_batch import batches
from feedback.statuses import StatusWrite, newer_of

BACKLOG_LIMIT = 20_000
BACKLOG_BYTES = 64_000_000
# How many statuses that Redis refuses are remembered, and for how long they are not tried again.
REFUSED_LIMIT = 1_000
REFUSED_FOR_S = 300.0

_Name = tuple[str, int, str]


class StatusBacklog:
    """Bounded: a sweep writes dropped statuses again, from the journal. Its owner locks it."""

    def __init__(self) -> None:
        self._due: dict[str, StatusWrite] = {}
        self._running: dict[str, tuple[float, Row]] = {}
        self._refused: dict[_Name, float] = {}
        self._size_bytes = 0

    def __len__(self) -> int:
        return len(self._due)

    def add(self, write: StatusWrite, now_s: float) -> None:
        """Take over a status, unless a newer one of its request waits already."""
        if self._refused and now_s < self._refused.get(_name(write), now_s):
            return
        running = self._running.get(write.request_id)
        if running is not None and write.generation >= running[1].generation:
            del self._running[write.request_id]
        self._put(write)
        while len(self._due) > BACKLOG_LIMIT or self._size_bytes > BACKLOG_BYTES:
            self._pop(next(iter(self._due)))

    def add_running(self, rows: Iterable[Row], due_s: float) -> bool:
        """Take over claims, due as RUNNING at this time; say whether nothing else waited for it."""
        is_first = not self._running
        for row in rows:
            self._running[row.request_id] = (due_s, row)
        return is_first

    def promote(self, now_s: float) -> float | None:
        """Make the runs that last due; return when the next one will be."""
        while self._running:
            request_id, (due_s, row) = next(iter(self._running.items()))
            if due_s > now_s:
                return due_s
            del self._running[request_id]
            self._put(from_row(row))
        return None

    def take(self, most: int) -> list[StatusWrite]:
        """Remove and return the oldest: at most so many, and as much as one call can carry."""
        taken = next(batches(self._due.values(), most=most), [])
        for write in taken:
            self._pop(write.request_id)
        return taken

    def put_back(self, batch: Iterable[StatusWrite]) -> None:
        """Let failed statuses wait again, in their places, unless newer ones have come meanwhile.

        Redis may come back empty, so each says then where its request came from.
        """
        newer, self._due, self._size_bytes = self._due, {}, 0
        for write in batch:
            self._put(write.placed)
        for write in newer.values():
            self._put(write)

    def note_refused(self, write: StatusWrite, now_s: float) -> None:
        """Do not take this status again for a while, or a sweep would bring it each time."""
        self._refused.pop(_name(write), None)
        self._refused[_name(write)] = now_s + REFUSED_FOR_S
        if len(self._refused) > REFUSED_LIMIT:
            self._refused.pop(next(iter(self._refused)))

    def _put(self, write: StatusWrite) -> None:
        waiting = self._due.get(write.request_id)
        if waiting is not None:
            write = newer_of(waiting, write)
            self._size_bytes -= waiting.size_bytes
        self._due[write.request_id] = write
        self._size_bytes += write.size_bytes

    def _pop(self, request_id: str) -> None:
        self._size_bytes -= self._due.pop(request_id).size_bytes


def _name(write: StatusWrite) -> _Name:
    return write.request_id, write.generation, write.state
