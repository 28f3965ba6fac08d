"""The outcomes of a worker: each is written until Kafka has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Protocol

from consumer.features.outcomes.news import News
from consumer.features.outgoing import rounds
from consumer.features.outgoing.listener import OUTCOMES, WRITTEN, OutgoingListener
from consumer.features.outgoing.posting import Posted
from consumer.features.outgoing.rounds import Duty, Rounds
from consumer.journal.outcomes import Ended
from consumer.journal.records import Row
from consumer.loop.feature import Feature
from consumer.loop.mapping import Run
from consumer.loop.settlement import Settlement
from feedback.logs import EventLog
from feedback.records.envelope import Record

log = EventLog("onceward.outcomes")

# Enough for the finishes of one turn of the loop to be written together.
GATHER_S = 0.01


class Poster(Protocol):
    """Writes a page of outcomes."""

    def post(self, page: Sequence[Ended]) -> Iterator[Posted]: ...


class Rows(rounds.Rows[Ended], Protocol):
    """Finds waiting rows."""

    def close_case(self, names: Collection[Run]) -> None: ...


class Outcomes(Feature):
    """Hears of ended requests, and writes their outcomes until stopped.

    Args:
        rows: finds waiting rows; with a connection of its own.
        posting: writes a page of it.
        news: the requests that this worker has just finished.
        targets: the outcome topic of each topic that has one here.
        lease_s: how often to look for rows of dead workers.
        may_sweep: asked with the monotonic time whether the dead can be told from the living.
        begin: called first in the thread.
        close: closes the connections to Kafka, in the thread.
        listeners: hear how many outcomes wait, and the end of each.
    """

    def __init__(
        self,
        *,
        rows: Rows,
        posting: Poster,
        news: News,
        targets: Mapping[str, str],
        lease_s: float,
        may_sweep: Callable[[float], bool],
        begin: Callable[[], None],
        close: Callable[[], None],
        listeners: Sequence[OutgoingListener] = (),
    ) -> None:
        self._rows = rows
        self._posting = posting
        self._news = news
        self._listeners = listeners
        self._topics = targets.keys()
        duty = Duty(
            kind=OUTCOMES,
            topics=targets.keys(),
            settle=self._settle,
            show=self._show,
            gather_s=GATHER_S,
            begin=begin,
            close=close,
        )
        self._rounds = Rounds(duty, rows=rows, memory=news, lease_s=lease_s, may_sweep=may_sweep)

    @property
    def is_stopping(self) -> bool:
        """Whether the rest is left to the next worker."""
        return self._rounds.is_stopping

    def ended(self, one: Settlement) -> None:
        """Hear how a run ended, as the journal has it."""
        if one.stands and one.finish is not None:
            self._news.ended(one.run, one.delivery.record)

    def never_ran(self, row: Row, record: Record) -> None:
        """Hear of a request that has ended without a run."""
        self._news.ended((row.request_id, row.generation), record)

    answered = never_ran

    def start(self) -> None:
        """Begin to write; with no handler that names an outcome topic there is nothing to do."""
        self._rounds.start()

    def stop(self) -> None:
        """End the thread; waiting rows stay in the journal."""
        self._rounds.stop()

    def look(self) -> None:
        """Write the waiting outcomes now; with the database away the next look does it."""
        self._rounds.look()

    def _show(self, topic: str, count: int, since_s: float) -> None:
        for one in self._listeners:
            one.waiting(OUTCOMES, topic, count, since_s, is_ours=topic in self._topics)

    def _settle(self, page: Sequence[Ended]) -> Iterator[Posted]:
        for posted in self._posting.post(page):
            runs: list[Run] = [(row.request_id, row.generation) for row in posted.written]
            self._rows.close_case(runs)
            self._news.forget(runs)
            for one in self._listeners:
                one.done(OUTCOMES, WRITTEN, posted.written)
            for topic, count in Counter(row.topic for row in posted.written).items():
                log.debug("outcomes.written", topic=topic, count=count)
            yield posted
