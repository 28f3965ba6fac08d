"""The dead letters of a worker: kept until Kafka has them, or only counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import ClassVar, Protocol

from consumer.features.dead_letters.evidence import Evidence
from consumer.features.dead_letters.posting import posting_of
from consumer.features.dead_letters.strategies import DROP, KEEP, strategies
from consumer.features.outgoing import rounds
from consumer.features.outgoing.listener import (
    DEAD_LETTERS,
    DROPPED,
    PAYLOAD_GONE,
    WRITTEN,
    OutgoingListener,
)
from consumer.features.outgoing.posting import Posted
from consumer.features.outgoing.rounds import Duty, Rounds
from consumer.journal.dead_letters import Dead, DeadLetterRows
from consumer.journal.records import Row
from consumer.loop.core import Core
from consumer.loop.feature import Feature
from consumer.loop.mapping import Run
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
    evidence = Evidence()
    posting = posting_of(core, evidence, stopping=lambda: letters.is_stopping)
    letters = DeadLetters(
        rows=core.rows(DeadLetterRows),
        posting=posting,
        evidence=evidence,
        strategies=chosen,
        lease_s=core.settings.journal.lease_s,
        may_sweep=core.may_sweep,
        close=posting.close,
        listeners=core.made(OutgoingListener),
    )
    return (letters,)


class Poster(Protocol):
    """Writes a page of letters."""

    def post(self, page: Sequence[Dead]) -> Iterator[Posted]: ...


class Rows(rounds.Rows[Dead], Protocol):
    """Finds waiting rows."""

    def close_case(self, names: Collection[Run]) -> None: ...


class DeadLetters(Feature):
    """Remembers requests that failed for good, and writes their letters until stopped.

    Args:
        rows: finds waiting rows; with a connection of its own.
        posting: writes a page of it.
        evidence: this worker's memory of failures; a new one wakes the thread.
        strategies: `keep` or `drop` for each topic that has dead letters here; failures of other
            topics are left alone.
        lease_s: how often to look for rows of dead workers.
        may_sweep: asked with the monotonic time whether the dead can be told from the living.
        close: closes the connections to Kafka, in the thread.
        listeners: hear how many letters wait, and the end of each.
    """

    name: ClassVar[str] = DEAD_LETTERS
    stop_s: ClassVar[float] = 2.0

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
        listeners: Sequence[OutgoingListener] = (),
    ) -> None:
        self._rows = rows
        self._posting = posting
        self._evidence = evidence
        self._strategies = strategies
        self._listeners = listeners
        duty = Duty(
            kind=DEAD_LETTERS,
            topics=strategies.keys(),
            settle=self._settle,
            show=self._show,
            gather_s=GATHER_S,
            close=close,
        )
        self._rounds = Rounds(
            duty, rows=rows, memory=evidence, lease_s=lease_s, may_sweep=may_sweep
        )

    @property
    def is_stopping(self) -> bool:
        """Whether the rest is left to the next worker."""
        return self._rounds.is_stopping

    def ended(self, one: Settlement) -> None:
        """Remember a failure that its letter is made of."""
        if one.stands and one.is_dead:
            self._evidence.failed(one.run, one.delivery.record, one.raised)

    def never_ran(self, row: Row, record: Record) -> None:
        """Remember a record that was refused."""
        if row.state == State.FAILED:
            self._evidence.failed((row.request_id, row.generation), record, None)

    def start(self) -> None:
        """Begin to write."""
        self._rounds.start()

    def stop(self, timeout_s: float) -> None:
        """End the thread; waiting rows stay in the journal."""
        self._rounds.stop(timeout_s)

    def look(self) -> None:
        """Write the waiting letters now; with the database away the next look does it."""
        self._rounds.look()

    def _settle(self, page: Sequence[Dead]) -> Iterator[Posted]:
        dropped = [one.row for one in page if self._strategies[one.row.topic] == DROP]
        if dropped:
            self._close_cases(dropped, DROPPED)
        kept = [one for one in page if self._strategies[one.row.topic] == KEEP]
        if not kept:
            return
        for posted in self._posting.post(kept):
            self._close_cases(posted.written, WRITTEN)
            self._close_cases(posted.gone, PAYLOAD_GONE)
            for topic, reason in (posted.refused | posted.closed).items():
                for one in self._listeners:
                    one.hindered(DEAD_LETTERS, topic, reason)
            yield posted

    def _show(self, topic: str, count: int, since_s: float) -> None:
        is_ours = topic in self._strategies
        for one in self._listeners:
            one.waiting(DEAD_LETTERS, topic, count, since_s, is_ours=is_ours)

    def _close_cases(self, rows: Sequence[Row], what: str) -> None:
        runs: list[Run] = [(row.request_id, row.generation) for row in rows]
        self._rows.close_case(runs)
        self._evidence.forget(runs)
        for one in self._listeners:
            one.done(DEAD_LETTERS, what, rows)
        for topic, count in Counter(row.topic for row in rows).items():
            log.info("dead_letters.closed", topic=topic, what=what, count=count)
