"""The thread that writes dead letters, not started, on a journal and a box in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import pytest

from consumer.features.dead_letters.dead_letters import DeadLetters
from consumer.features.dead_letters.strategies import DROP, KEEP
from consumer.features.outgoing import outgoing_loop as module
from consumer.features.outgoing.recent_runs import RecentFailures
from consumer.features.outgoing.record_writer import OutgoingListener, PageResults
from consumer.journal import JournalUnavailable, Run
from consumer.journal.records import Row
from consumer.journal.waiting import OwedCount, OwedCursor, OwedRow
from tests.consumer.features.dead_letters.samples import FAILED_AT, dead

STRATEGIES = {"payments": KEEP, "orders": KEEP, "news": DROP}


class Rows:
    """A journal in memory: failures in their order, mine unless they begin with `their`."""

    def __init__(self, *ids: str) -> None:
        self.waits: dict[Run, OwedRow] = {}
        self.is_away = False
        self.is_closed = False
        self.turns = 0
        self.looks = 0
        self.asked: list[OwedCursor] = []
        self.spans: list[int] = []
        self.spend: Callable[[], None] = lambda: None
        for request_id in ids:
            self.add(request_id)

    def add(self, request_id: str, topic: str = "payments") -> None:
        """Let a request fail, later than those before."""
        at = FAILED_AT + len(self.waits)
        one = dead(request_id, topic=topic, finished_at=at)
        self.waits[request_id, 1] = one

    def waiting(self, within_ms: int) -> list[OwedCount]:
        self.looks += 1
        self.spans.append(within_ms)
        self.spend()
        if self.is_away:
            raise JournalUnavailable("away")
        topics = sorted({one.row.topic for one in self.waits.values()})
        return [self._of(topic) for topic in topics]

    def _of(self, topic: str) -> OwedCount:
        ids = [run[0] for run, one in self.waits.items() if one.row.topic == topic]
        mine = sum(not name.startswith("their") for name in ids)
        return OwedCount(topic, len(ids), 1000, mine)

    def take_turn(self, every_ms: int) -> bool:
        self.turns += 1
        return True

    def page(
        self,
        cursor: OwedCursor,
        *,
        topics: Collection[str],
        limit: int,
        of_the_dead: bool,
        within_ms: int,
    ) -> list[OwedRow]:
        self.asked.append(cursor)
        found = [
            one
            for one in self.waits.values()
            if one.row.topic in topics
            and ((one.row.finished_at or 0), one.row.request_id) > cursor
            and (of_the_dead or not one.row.request_id.startswith("their"))
        ]
        return sorted(found, key=lambda one: (one.row.finished_at, one.row.request_id))[:limit]

    def close_case(self, names: Collection[Run]) -> None:
        for name in names:
            del self.waits[name]

    def close(self) -> None:
        self.is_closed = True


class Poster:
    """Writes every letter, but what a test has put in its way."""

    def __init__(self) -> None:
        self.tried: list[str] = []
        self.refused: set[str] = set()
        self.gone: set[str] = set()
        self.closed: set[str] = set()
        self.is_closed = threading.Event()

    def post(self, page: Sequence[OwedRow]) -> Iterator[PageResults]:
        posted = PageResults()
        for one in page:
            row = one.row
            if row.topic in posted.closed:
                continue
            self.tried.append(row.request_id)
            if row.topic in self.closed:
                posted.closed[row.topic] = "away"
            elif row.request_id in self.refused:
                posted.refused[row.topic] = "too large"
            elif row.request_id in self.gone:
                posted.gone.append(row)
            else:
                posted.written.append(row)
        yield posted

    def close(self) -> None:
        self.is_closed.set()

    def taken(self) -> list[str]:
        """Return what was tried since the last time."""
        tried, self.tried = self.tried, []
        return tried


class Counting(OutgoingListener):
    """Counts what it is told."""

    def __init__(self) -> None:
        self.counted: dict[tuple[str, str], int] = {}
        self.shown: dict[str, int] = {}

    def done(self, kind: str, what: str, rows: Sequence[Row]) -> None:
        for row in rows:
            self.counted[row.topic, what] = self.counted.get((row.topic, what), 0) + 1

    def waiting(self, kind: str, topic: str, count: int, since_s: float, *, is_ours: bool) -> None:
        self.shown[topic] = count


class Heard(OutgoingListener):
    """Notes what it hears."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def done(self, kind: str, what: str, rows: Sequence[Row]) -> None:
        self.told += [("written", row.request_id) for row in rows]

    def waiting(self, kind: str, topic: str, count: int, since_s: float, *, is_ours: bool) -> None:
        if is_ours:
            self.told.append(("waiting", topic, count, since_s))

    def hindered(self, kind: str, topic: str, reason: str) -> None:
        self.told.append(("hindered", topic, reason))


class Office:
    """A thread that is not started, with all that it stands on, and a clock of its own."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *,
        lease_s: float = 0.05,
        strategies: Mapping[str, str] = STRATEGIES,
    ) -> None:
        self.now_s = 1.0
        monkeypatch.setattr(module, "monotonic_s", lambda: self.now_s)
        self.rows = Rows()
        self.poster = Poster()
        self.recent = RecentFailures()
        self.metrics = Counting()
        self.alerts = Heard()
        self.may_sweep = True
        self.letters = DeadLetters(
            rows=self.rows,
            page_writer=self.poster,
            recent=self.recent,
            strategies=strategies,
            lease_s=lease_s,
            may_sweep=lambda now_s: self.may_sweep,
            listeners=[self.metrics, self.alerts],
        )
