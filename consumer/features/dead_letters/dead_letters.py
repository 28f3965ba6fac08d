"""The dead letters of a worker: stored until Kafka has them, or only counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

from consumer.features.dead_letters.letter_writer import letter_writer_of
from consumer.features.dead_letters.strategies import DROP, KEEP, strategies
from consumer.features.outgoing.outgoing_loop import OutgoingLoop, OwedRows, PageWriter
from consumer.features.outgoing.recent_runs import RecentFailures
from consumer.features.outgoing.record_writer import (
    DEAD_LETTERS,
    DROPPED,
    PAYLOAD_GONE,
    WRITTEN,
    OutgoingListener,
    PageResults,
)
from consumer.journal.owed_rows import DeadLetterRows
from consumer.journal.records import Row
from consumer.journal.waiting import OwedRow
from consumer.loop.core import Core
from consumer.loop.feature import Feature
from consumer.loop.settlement import Settlement
from feedback.logs import EventLog
from feedback.records.envelope import Record
from feedback.status import State

log = EventLog("onceward.dead_letters")

# Failures come in crowds: letters that wait so long are written together.
GATHER_S = 0.05


def make(core: Core) -> Sequence[Feature]:
    """Return the writer of a worker's dead letters; it connects when there is one to write."""
    chosen = strategies(core.settings, core.by_topic)
    if not chosen:
        return ()
    recent = RecentFailures()
    page_writer = letter_writer_of(core, recent, stopping=lambda: letters.is_stopping)
    letters = DeadLetters(
        rows=core.rows(DeadLetterRows),
        page_writer=page_writer,
        recent=recent,
        strategies=chosen,
        lease_s=core.settings.journal.lease_s,
        may_sweep=core.may_sweep,
        listeners=core.made(OutgoingListener),
    )
    return (letters,)


class DeadLetters(OutgoingLoop):
    """Remembers requests that failed for good, and writes their letters until stopped.

    Args:
        strategies: `keep` or `drop` for each topic that has dead letters here; failures of other
            topics are left alone.
    """

    name: ClassVar[str] = DEAD_LETTERS
    gather_s: ClassVar[float] = GATHER_S

    def __init__(
        self,
        *,
        rows: OwedRows,
        page_writer: PageWriter,
        recent: RecentFailures,
        strategies: Mapping[str, str],
        lease_s: float,
        may_sweep: Callable[[float], bool],
        listeners: Sequence[OutgoingListener] = (),
    ) -> None:
        super().__init__(
            rows=rows,
            page_writer=page_writer,
            recent=recent,
            topics=strategies.keys(),
            lease_s=lease_s,
            may_sweep=may_sweep,
            listeners=listeners,
        )
        self._failures = recent
        self._strategies = strategies

    def ended(self, one: Settlement) -> None:
        if one.stands and one.is_dead:
            self._failures.failed(one.run, one.delivery.record, one.raised)

    def never_ran(self, row: Row, record: Record) -> None:
        if row.state == State.FAILED:
            self._failures.failed((row.request_id, row.generation), record, None)

    def settle(self, page: Sequence[OwedRow]) -> Iterator[PageResults]:
        """Write the letters that are stored, and count those that are dropped."""
        dropped = [one.row for one in page if self._strategies[one.row.topic] == DROP]
        if dropped:
            self.close_cases(dropped, DROPPED)
        kept = [one for one in page if self._strategies[one.row.topic] == KEEP]
        if not kept:
            return
        for posted in self._page_writer.post(kept):
            self.close_cases(posted.written, WRITTEN)
            self.close_cases(posted.gone, PAYLOAD_GONE)
            for topic, reason in (posted.refused | posted.closed).items():
                for one in self._listeners:
                    one.hindered(DEAD_LETTERS, topic, reason)
            yield posted

    def close_cases(self, rows: Sequence[Row], what: str) -> None:
        super().close_cases(rows, what)
        for topic, count in Counter(row.topic for row in rows).items():
            log.info("dead_letters.closed", topic=topic, what=what, count=count)
