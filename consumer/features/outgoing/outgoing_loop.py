"""The thread that goes through waiting rows and writes their records, until Kafka has them.

It looks when this worker has news, and at least once a lease for rows of dead workers. The journal
is asked first whether any row waits: mostly none does, which costs one look into an index that is
empty, or as far back as `consumer.journal.pacing` says.
"""

from __future__ import annotations

import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Protocol

from consumer.features.outgoing.blocked_topics import BlockedTopics
from consumer.features.outgoing.recent_runs import RecentRuns
from consumer.features.outgoing.record_writer import OutgoingListener, PageResults
from consumer.journal import JournalUnavailable, Row, Run
from consumer.journal.pacing import LookPacing
from consumer.journal.waiting import OwedCount, OwedCursor, OwedRow
from consumer.loop.feature import Feature
from feedback.clock import monotonic_s
from feedback.logs import EventLog

PAGE = 200
# While much waits and cannot be written, asking how much takes at most this share of the time.
ASKING_SHARE = 0.05
# The share of a lease after which a worker looks for rows of dead workers.
TURN_EVERY = 0.5


class OwedRows(Protocol):
    """Finds waiting rows."""

    def waiting(self, within_ms: int) -> list[OwedCount]: ...
    def take_turn(self, every_ms: int) -> bool: ...
    def page(
        self,
        cursor: OwedCursor,
        *,
        topics: Collection[str],
        limit: int,
        of_the_dead: bool,
        within_ms: int,
    ) -> Sequence[OwedRow]: ...
    def close_case(self, names: Collection[Run]) -> None: ...
    def close(self) -> None: ...


class PageWriter(Protocol):
    """Writes a page of records."""

    def post(self, page: Sequence[OwedRow]) -> Iterator[PageResults]: ...
    def close(self) -> None: ...


class OutgoingLoop(Feature, ABC):
    """Writes the records of waiting rows, until stopped; `name` is the kind of the records.

    Args:
        recent: this worker's memory of waiting rows; a new one wakes this thread.
        topics: those that this worker writes for; rows of other topics are left alone.
        lease_s: how often to look for rows of dead workers.
        may_sweep: called with the monotonic time; returns whether dead workers can be told from
            living ones.
        listeners: hear how many records wait, and the end of each.

    Attributes:
        gather_s: how long news wait for others, to be written together.
    """

    stop_s: ClassVar[float] = 2.0
    gather_s: ClassVar[float]

    def __init__(
        self,
        *,
        rows: OwedRows,
        page_writer: PageWriter,
        recent: RecentRuns[Any],
        topics: Collection[str],
        lease_s: float,
        may_sweep: Callable[[float], bool],
        listeners: Sequence[OutgoingListener] = (),
    ) -> None:
        self._rows = rows
        self._page_writer = page_writer
        self._recent = recent
        self._topics = topics
        self._lease_s = lease_s
        self._may_sweep = may_sweep
        self._listeners = listeners
        self._log = EventLog(f"onceward.{self.name}")
        self._blocked_topics = BlockedTopics(self.name)
        self._cursor = OwedCursor()
        self._asked_s = 0.0
        self._span = LookPacing(monotonic_s())
        self._shown: set[str] = set()
        self._stopping = threading.Event()
        name = f"onceward-{self.name.replace('_', '-')}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def begin(self) -> None:
        """Prepare; called first in the thread."""

    @abstractmethod
    def settle(self, page: Sequence[OwedRow]) -> Iterator[PageResults]:
        """Write a page and close the cases of its rows; yield the results."""

    def close_cases(self, rows: Sequence[Row], what: str) -> None:
        """Note that these rows wait for no record any more.

        Args:
            what: as in `OutgoingListener.done`.
        """
        runs: list[Run] = [(row.request_id, row.generation) for row in rows]
        self._rows.close_case(runs)
        self._recent.forget(runs)
        for one in self._listeners:
            one.done(self.name, what, rows)

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End the thread; waiting rows stay in the journal.

        One that waits for a server that hangs is left behind, a daemon.
        """
        self._stopping.set()
        self._recent.news.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        # Workers that were started together must not ask together.
        pause_s = self._lease_s * random.uniform(0.1, 0.9)
        try:
            self.begin()
            while not self._stopping.is_set():
                self._recent.news.wait(pause_s)
                self._stopping.wait(min(self._lease_s, self._gather_s))
                self._recent.news.clear()
                if not self._stopping.is_set():
                    self.look()
                pause_s = self._pause_s(monotonic_s())
        finally:
            self._page_writer.close()
            self._rows.close()

    @property
    def _gather_s(self) -> float:
        return max(self.gather_s, self._asked_s / ASKING_SHARE)

    def _pause_s(self, now_s: float) -> float:
        if not self._blocked_topics.is_hindered:
            return self._lease_s
        return min(self._lease_s, max(0.0, self._blocked_topics.again_s - now_s))

    def look(self) -> None:
        """Write the waiting records now; with the database away the next look does it."""
        try:
            self._look(monotonic_s())
        except JournalUnavailable as error:
            self._log.debug(f"{self.name}.left", reason=error.reason)

    def _look(self, now_s: float) -> None:
        waiting = self._waiting(now_s)
        self._asked_s = monotonic_s() - now_s
        ours = [one for one in waiting if one.topic in self._topics]
        self._span.looked(
            now_s, monotonic_s(), oldest_ms=max((one.oldest_ms for one in ours), default=0)
        )
        self._show(waiting, now_s)
        has_mine = any(one.mine for one in ours)
        if not has_mine:
            self._recent.forget_before(now_s)
        if self._blocked_topics.begins(now_s):
            self._cursor = OwedCursor()
        of_the_dead = self._is_my_turn(ours, now_s)
        written: set[str] = set()
        if has_mine or of_the_dead:
            written = self._pass_on({one.topic for one in ours}, of_the_dead=of_the_dead)
        left = {one.topic for one in ours} - written
        self._blocked_topics.ends(monotonic_s(), waiting=left)

    def _waiting(self, now_s: float) -> list[OwedCount]:
        try:
            return self._rows.waiting(self._span.begin(now_s))
        except JournalUnavailable:
            self._span.ended(now_s, monotonic_s())
            raise

    def _is_my_turn(self, waiting: Iterable[OwedCount], now_s: float) -> bool:
        if all(one.mine == one.requests for one in waiting) or not self._may_sweep(now_s):
            return False
        return self._rows.take_turn(int(1000 * self._lease_s * TURN_EVERY))

    def _pass_on(self, topics: Collection[str], *, of_the_dead: bool) -> set[str]:
        """Write the rows behind the cursor; return the topics of which any was written."""
        written: set[str] = set()
        while not self.is_stopping:
            worth = [topic for topic in topics if self._blocked_topics.is_open(topic)]
            if not worth:
                break
            page = self._rows.page(
                self._cursor,
                topics=worth,
                limit=PAGE,
                of_the_dead=of_the_dead,
                within_ms=self._span.age_ms(monotonic_s()),
            )
            for posted in self.settle(page):
                self._note(posted)
                written.update(row.topic for row in posted.written)
            if page:
                last = page[-1].row
                self._cursor = OwedCursor(last.finished_at or 0, last.request_id)
            if len(page) < PAGE:
                break
        return written

    def _note(self, posted: PageResults) -> None:
        for topic, reason in posted.closed.items():
            self._blocked_topics.closed(topic, reason)
        for topic, reason in posted.refused.items():
            self._blocked_topics.refused(topic, reason)

    def _show(self, waiting: Iterable[OwedCount], now_s: float) -> None:
        # A look that did not go back to the oldest row knows only a part of the dead workers' rows.
        is_whole = self._span.is_all
        found = {one.topic: one for one in waiting if is_whole or one.topic in self._topics}
        known = {topic for topic in self._shown if is_whole or topic in self._topics}
        for topic in known - found.keys():
            self._tell_waiting(topic, 0, now_s)
        for topic, one in found.items():
            self._tell_waiting(topic, one.requests, now_s - one.oldest_ms / 1000)
        self._shown = (self._shown - known) | found.keys()

    def _tell_waiting(self, topic: str, count: int, since_s: float) -> None:
        for one in self._listeners:
            one.waiting(self.name, topic, count, since_s, is_ours=topic in self._topics)
