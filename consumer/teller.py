"""The thread that tells clients: Redis may be slow or away, and processing does not stop for it.

What it could not tell is told by a sweep later, since the journal is the truth: so the backlog is
bounded, and dropping from it loses nothing.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence

from consumer.journal import Published, Row
from consumer.telling import from_row
from feedback.clock import monotonic_s
from feedback.errors import RedisUnavailable
from feedback.logs import EventLog
from feedback.status import FINAL, Refusal, State
from feedback.statuses import Refused, StatusWrite
from feedback.store import StatusStore

log = EventLog("onceward.teller")

BACKLOG_LIMIT = 20_000
BATCH = 256
# A run shorter than this is told by its outcome alone: half the writes for short handlers.
RUNNING_AFTER_S = 0.02
RETRY_S = 0.5


class Teller:
    """Writes statuses in batches, the latest of each request.

    Args:
        store: the group's statuses.
    """

    def __init__(self, store: StatusStore) -> None:
        self._store = store
        self._due: dict[str, StatusWrite] = {}
        self._running: dict[str, tuple[float, Row]] = {}
        self._told: deque[Published] = deque()
        self._changed = threading.Condition()
        self._busy = False
        self._stopping = False
        self._away = False
        self._retry_at_s = 0.0
        self._thread = threading.Thread(target=self._run, name="onceward-teller", daemon=True)

    def start(self) -> None:
        """Begin to tell."""
        self._thread.start()

    def tell(self, writes: Iterable[StatusWrite]) -> None:
        """Take over statuses; returns at once. A later one of a request replaces an earlier."""
        with self._changed:
            for write in writes:
                self._running.pop(write.request_id, None)
                self._due[write.request_id] = write
            while len(self._due) > BACKLOG_LIMIT:
                self._due.pop(next(iter(self._due)))
            self._changed.notify()

    def tell_running(self, rows: Iterable[Row]) -> None:
        """Take over claims that were just dispatched; one that ends soon is never told as such."""
        due_s = monotonic_s() + RUNNING_AFTER_S
        with self._changed:
            # Only the first of a new row of runs can be due before what the thread waits for.
            wakes = not self._running
            for row in rows:
                self._running[row.request_id] = (due_s, row)
            if wakes:
                self._changed.notify()

    def take_told(self) -> list[Published]:
        """Return the journal states that Redis has since the last call."""
        told = []
        while self._told:
            told.append(self._told.popleft())
        return told

    @property
    def told_count(self) -> int:
        """How many are there for `take_told`."""
        return len(self._told)

    @property
    def redis_away(self) -> bool:
        """Whether the last write found no Redis."""
        return self._away

    def flush(self, timeout_s: float) -> bool:
        """Return whether everything was told, after at most `timeout_s`."""
        with self._changed:
            return self._changed.wait_for(
                lambda: (not self._due and not self._busy) or self._away, timeout_s
            )

    def stop(self) -> None:
        """End the thread; call `flush` before."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while True:
            batch = self._next_batch()
            if batch is None:
                return
            try:
                refusals = self._store.write(batch)
            except RedisUnavailable as error:
                self._put_back(batch, str(error))
            else:
                self._note_told(batch, refusals)

    def _next_batch(self) -> list[StatusWrite] | None:
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            while not self._stopping:
                now_s = monotonic_s()
                next_s = self._promote(now_s)
                if self._away and now_s < self._retry_at_s:
                    next_s = self._retry_at_s
                elif self._due:
                    break
                self._changed.wait(None if next_s is None else next_s - now_s)
            if not self._due or (self._stopping and self._away):
                return None
            ids = [request_id for request_id, _ in zip(self._due, range(BATCH), strict=False)]
            self._busy = True
            return [self._due.pop(request_id) for request_id in ids]

    def _promote(self, now_s: float) -> float | None:
        """Make the runs that last due; return when the next one will be."""
        while self._running:
            request_id, (due_s, row) = next(iter(self._running.items()))
            if due_s > now_s:
                return due_s
            del self._running[request_id]
            self._due.setdefault(request_id, from_row(row))
        return None

    def _note_told(self, batch: list[StatusWrite], refusals: Sequence[Refused | None]) -> None:
        if self._away:
            self._away = False
            log.info("redis.back", waiting=len(self._due))
        # A refused write is told too: what stands there is newer. But for another payload's
        # status: that is no answer to this request, and a sweep puts the journal's row there.
        self._told.extend(
            Published(write.request_id, write.generation, str(write.state))
            for write, refused in zip(batch, refusals, strict=True)
            if (write.state in FINAL or write.state is State.RETRYING)
            and (refused is None or refused.reason is not Refusal.PAYLOAD)
        )

    def _put_back(self, batch: list[StatusWrite], reason: str) -> None:
        if not self._away:
            log.warning("redis.away", reason=reason)
        with self._changed:
            self._away = True
            self._retry_at_s = monotonic_s() + RETRY_S
            for write in batch:
                self._due.setdefault(write.request_id, write)
