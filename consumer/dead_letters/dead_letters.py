"""The thread that writes dead letters until Kafka has acknowledged them (contract, section 7).

It looks when this worker has failed a request, and at least once a lease for what dead workers
left. The journal is asked first what waits at all: mostly nothing does, which costs one look into
an index that is empty.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from consumer.dead_letters.evidence import Evidence
from consumer.dead_letters.hindrances import Hindrances
from consumer.dead_letters.posting import Posted
from consumer.entries import Run
from consumer.health.metrics import NO_METRICS, Metrics
from consumer.journal import JournalUnavailable
from consumer.journal.dead_letters import Cursor, Dead, Waiting
from consumer.journal.records import Row
from feedback.clock import monotonic_s
from feedback.logs import EventLog

log = EventLog("onceward.dead_letters")

KEEP, DROP = "keep", "drop"
WRITTEN, DROPPED, PAYLOAD_GONE = "written", "dropped", "payload_gone"
PAGE = 200
STOP_S = 2.0
# Failures come in crowds: what waits so long is written together.
GATHER_S = 0.05
# While much waits and cannot be written, asking how much takes at most this share of the time.
ASKING_SHARE = 0.05
# Of a lease: how often somebody looks for what the dead have left.
TURN_EVERY = 0.5


class Poster(Protocol):
    """Writes a page of letters."""

    def post(self, page: Sequence[Dead]) -> Iterator[Posted]: ...


class Rows(Protocol):
    """Knows what waits."""

    def waiting(self) -> list[Waiting]: ...
    def take_turn(self, every_ms: int) -> bool: ...
    def page(
        self, cursor: Cursor, *, topics: Collection[str], limit: int, of_the_dead: bool
    ) -> list[Dead]: ...
    def close_case(self, names: Collection[Run]) -> None: ...
    def close(self) -> None: ...


class DeadLetters:
    """Writes what waits, until stopped.

    Args:
        rows: what waits; with a connection of its own.
        posting: writes a page of it.
        evidence: what this worker remembers; its news wake this thread.
        strategies: `keep` or `drop` for each topic that has dead letters here; failures of other
            topics are left alone.
        lease_s: how often to look for what others left.
        may_sweep: asked with the monotonic time whether the dead can be told from the living.
        close: closes the connections to Kafka, in this thread.
        metrics: told what waits and what became of it.
    """

    def __init__(
        self,
        *,
        rows: Rows,
        posting: Poster,
        evidence: Evidence,
        strategies: Mapping[str, str],
        lease_s: float,
        may_sweep: Callable[[float], bool],
        close: Callable[[], None],
        metrics: Metrics = NO_METRICS,
    ) -> None:
        self._rows = rows
        self._posting = posting
        self._evidence = evidence
        self._strategies = strategies
        self._lease_s = lease_s
        self._may_sweep = may_sweep
        self._close = close
        self._metrics = metrics
        self._hindrances = Hindrances()
        self._cursor = Cursor()
        self._asked_s = 0.0
        self._shown: set[str] = set()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="onceward-dead-letters", daemon=True)

    @property
    def is_stopping(self) -> bool:
        """Whether the rest is left to the next worker."""
        return self._stopping.is_set()

    def start(self) -> None:
        """Begin to write; with no topic that has dead letters there is nothing to do."""
        if self._strategies:
            self._thread.start()

    def stop(self) -> None:
        """End the thread; what waits stays in the journal.

        One that waits for a server that hangs is left behind, a daemon.
        """
        self._stopping.set()
        self._evidence.news.set()
        if self._thread.is_alive():
            self._thread.join(STOP_S)

    def _run(self) -> None:
        # Workers that were started together must not ask together.
        pause_s = self._lease_s * random.uniform(0.1, 0.9)
        try:
            while not self._stopping.is_set():
                self._evidence.news.wait(pause_s)
                self._stopping.wait(min(self._lease_s, self._gather_s))
                self._evidence.news.clear()
                if not self._stopping.is_set():
                    self.look()
                pause_s = self._pause_s(monotonic_s())
        finally:
            self._close()
            self._rows.close()

    @property
    def _gather_s(self) -> float:
        return max(GATHER_S, self._asked_s / ASKING_SHARE)

    def _pause_s(self, now_s: float) -> float:
        if not self._hindrances.is_hindered:
            return self._lease_s
        return min(self._lease_s, max(0.0, self._hindrances.again_s - now_s))

    def look(self) -> None:
        """Write what waits now; with the database away it is the next look's business."""
        try:
            self._look(monotonic_s())
        except JournalUnavailable as error:
            log.debug("dead_letters.left", reason=error.reason)

    def _look(self, now_s: float) -> None:
        waiting = self._rows.waiting()
        self._asked_s = monotonic_s() - now_s
        self._show(waiting, now_s)
        ours = [one for one in waiting if one.topic in self._strategies]
        has_mine = any(one.mine for one in ours)
        if not has_mine:
            self._evidence.forget_before(now_s)
        if self._hindrances.begins(now_s):
            self._cursor = Cursor()
        of_the_dead = self._is_my_turn(ours, now_s)
        written: set[str] = set()
        if has_mine or of_the_dead:
            written = self._pass_on({one.topic for one in ours}, of_the_dead=of_the_dead)
        left = {one.topic for one in ours} - written
        self._hindrances.ends(monotonic_s(), waiting=left)

    def _is_my_turn(self, waiting: Iterable[Waiting], now_s: float) -> bool:
        if all(one.mine == one.failures for one in waiting) or not self._may_sweep(now_s):
            return False
        return self._rows.take_turn(int(1000 * self._lease_s * TURN_EVERY))

    def _pass_on(self, topics: Collection[str], *, of_the_dead: bool) -> set[str]:
        """Write what waits behind the cursor; return the topics of which anything was written."""
        written: set[str] = set()
        while not self.is_stopping:
            worth = [topic for topic in topics if self._hindrances.is_open(topic)]
            if not worth:
                break
            page = self._rows.page(self._cursor, topics=worth, limit=PAGE, of_the_dead=of_the_dead)
            for posted in self._posted(page):
                self._note(posted)
                written.update(row.topic for row in posted.written)
            if page:
                last = page[-1].row
                self._cursor = Cursor(last.finished_at or 0, last.request_id)
            if len(page) < PAGE:
                break
        return written

    def _posted(self, page: Sequence[Dead]) -> Iterator[Posted]:
        dropped = [one.row for one in page if self._strategies[one.row.topic] == DROP]
        if dropped:
            self._close_cases(dropped, DROPPED)
        kept = [one for one in page if self._strategies[one.row.topic] == KEEP]
        if kept:
            yield from self._posting.post(kept)

    def _note(self, posted: Posted) -> None:
        self._close_cases(posted.written, WRITTEN)
        self._close_cases(posted.gone, PAYLOAD_GONE)
        for topic, reason in posted.closed.items():
            self._hindrances.closed(topic, reason)
        for topic, reason in posted.refused.items():
            self._hindrances.refused(topic, reason)

    def _close_cases(self, rows: Sequence[Row], what: str) -> None:
        runs: list[Run] = [(row.request_id, row.generation) for row in rows]
        self._rows.close_case(runs)
        self._evidence.forget(runs)
        for topic, count in Counter(row.topic for row in rows).items():
            self._metrics.dead_letters(topic, what, count)
            log.info("dead_letters.closed", topic=topic, what=what, count=count)

    def _show(self, waiting: Iterable[Waiting], now_s: float) -> None:
        found = {one.topic: one for one in waiting}
        for topic in self._shown - found.keys():
            self._metrics.dead_letters_waiting(topic, 0, now_s)
        for topic, one in found.items():
            self._metrics.dead_letters_waiting(topic, one.failures, now_s - one.oldest_ms / 1000)
        self._shown = set(found)
