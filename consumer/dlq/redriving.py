"""A redrive at work: letters are read, their requests reopened, told, and sent back.

```
letters ─▶ chosen ─▶ reopen (journal) ─▶ PENDING (Redis) ─▶ origin topic (Kafka) ─▶ save (journal)
```

One page of letters at a time, so memory does not grow with their number. Killed at any point, it
goes on where it was saved: what was reopened since is named in the journal, and stands in the
topics behind the marks, or was not sent (see `consumer/journal/redrive_work.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from consumer.dlq.letter import DeadLetter
from consumer.dlq.reading import LetterPage
from consumer.dlq.redrive_plan import RedrivePlan, chunk_size
from consumer.dlq.redrive_progress import CHOSEN, READ, SENT, Tally, Unconfirmed
from consumer.dlq.redrive_record import Sending, attempt_of, candidate_of, sending_of
from consumer.dlq.redrive_telling import Tellings
from consumer.dlq.redrive_traces import Traces
from consumer.journal.records import Published
from consumer.journal.redrive_row import Redrive
from consumer.journal.redrive_rule import Redrivable
from consumer.journal.redrive_work import RedriveWork
from consumer.journal.reopening import TO_SEND, Judged
from feedback.clock import epoch_ms, monotonic_s
from feedback.errors import KafkaUnavailable
from feedback.kafka_scan import Place, Span, resumed
from feedback.kafka_writer import Outgoing, RecordRefused


class Reader(Protocol):
    """Reads letters."""

    def pages(self, spans: Mapping[Place, Span]) -> Iterator[LetterPage]: ...


class Writer(Protocol):
    """Writes records; None for each that Kafka has acknowledged."""

    def write(self, records: Sequence[Outgoing]) -> list[KafkaUnavailable | None]: ...


class Tools(NamedTuple):
    """What a redrive works with.

    Args:
        topics: those that exist.
    """

    letters: Reader
    work: RedriveWork
    traces: Traces
    tellings: Tellings
    writer: Writer
    topics: Collection[str]


class Ready(NamedTuple):
    """A letter that may be sent back, with its value set anew where that was asked for."""

    letter: DeadLetter
    value: bytes | None


class Redriving:
    """Goes through letters until the end, or until it is told to stop.

    Args:
        stands: the redrive as the journal has it; this process's.
        rate: how many letters are sent a second at most.
        stopping: set when the rest is to be left.
        on_progress: called after each page with how many letters were passed, and how many there
            are.

    Attributes:
        tally: what became of the letters.
    """

    def __init__(
        self,
        stands: Redrive,
        tools: Tools,
        *,
        rate: float | None,
        stopping: threading.Event,
        on_progress: Callable[[int, int], None] = lambda read, total: None,
    ) -> None:
        self._stands = stands
        self._plan = RedrivePlan.from_json(stands.filter)
        self._tools = tools
        self._rate = rate
        self._stopping = stopping
        self._on_progress = on_progress
        self._free_s = 0.0
        self._published: list[Published] = []
        self.tally = Tally(stands.counts, self._plan.filter.ids, stands.named)
        self._open = Unconfirmed(stands, ())

    def run(self) -> bool:
        """Send back; say whether all letters were gone through.

        Raises:
            RedriveStopped: it was cancelled, or goes on elsewhere.
            KafkaUnavailable, JournalUnavailable: it can be resumed.
        """
        stands = self._stands
        if stands.unconfirmed:
            sent = self._tools.traces.sent(stands.redrive_id, stands.marks)
            self._open = Unconfirmed(stands, sent)
        spans = {place: Span(*span) for place, span in stands.spans.items()}
        left = resumed(spans, stands.positions)
        for page in self._tools.letters.pages(left):
            if not self._go_through(page):
                self._tools.work.leave(stands.redrive_id, is_done=False)
                return False
            self._on_progress(page.read, page.total)
        self._tools.work.leave(stands.redrive_id, is_done=True)
        return True

    def _go_through(self, page: LetterPage) -> bool:
        """Send back what was chosen of a page, and save; False when it was left before its end."""
        chosen = [one for one in page.letters if self._plan.filter.takes(one)]
        self.tally.add(READ, len(page.letters))
        self.tally.add(CHOSEN, len(chosen))
        ready = list(self._ready(chosen))
        size = chunk_size(self._rate)
        for at in range(0, len(ready), size):
            if self._wait_is_cut():
                return False
            self._send_back(ready[at : at + size])
        self._open.passed(one.letter.request_id for one in ready)
        self._tools.work.save(
            self._stands.redrive_id,
            positions=page.positions,
            marks=self._open.marks,
            unconfirmed=self._open.names,
            counts=self.tally.counts,
            named=self.tally.found,
            published=self._published,
        )
        self.tally.page_saved()
        self._published = []
        return not self._stopping.is_set() or page.read == page.total

    def _ready(self, letters: Sequence[DeadLetter]) -> Iterator[Ready]:
        for one in letters:
            fault = self._plan.fault_of(one, self._tools.topics)
            if fault is None:
                yield Ready(one, self._plan.set_anew(one))
            else:
                self.tally.became(one.request_id, fault.value)

    def _wait_is_cut(self) -> bool:
        """Wait until the rate allows more; say whether it is time to stop."""
        return self._stopping.wait(max(0.0, self._free_s - monotonic_s()))

    def _send_back(self, ready: Sequence[Ready]) -> None:
        self._open.reopening(
            [one.letter.request_id for one in ready],
            self._tools.traces.marks({one.letter.home for one in ready}),
        )
        judged = self._tools.work.reopen(
            [candidate_of(one.letter) for one in ready],
            self._plan.wish(self._stands.redrive_id, frozenset(self._open.owed)),
            valid_ms=self._plan.valid_ms,
            by=self._stands.by,
            reason=self._stands.reason,
            marks=self._open.marks,
            unconfirmed=self._open.names,
        )
        sendings = self._sendings(ready, judged)
        self._published += self._tools.tellings.sent_back(sendings)
        errors = self._tools.writer.write([one.outgoing for one in sendings])
        if self._rate is not None:
            begin_s = max(self._free_s, monotonic_s())
            self._free_s = begin_s + len(sendings) / self._rate
        self._note(sendings, errors)

    def _sendings(self, ready: Sequence[Ready], judged: Sequence[Judged]) -> list[Sending]:
        chosen = []
        for one, found in zip(ready, judged, strict=True):
            if found.kind in TO_SEND:
                chosen.append((one, found.row))
            else:
                self._refused(one.letter.request_id, found.kind)
        until = epoch_ms() + self._plan.valid_ms
        replaces = self._plan.setting is not None
        attempts = self._tools.tellings.reopened(
            [one.letter.request_id for one, _ in chosen],
            [None if replaces else row for _, row in chosen],
        )
        return [
            sending_of(
                one.letter,
                row,
                redrive_id=self._stands.redrive_id,
                by=self._stands.by,
                attempt=max(0 if row is None else row.attempt, attempt_of(one.letter), told),
                deadline_at=until if row is None or replaces else row.deadline_at,
                value=one.value,
                replaces=replaces,
            )
            for (one, row), told in zip(chosen, attempts, strict=True)
        ]

    def _refused(self, request_id: str, kind: Redrivable) -> None:
        if kind is not Redrivable.SENT:
            self.tally.became(request_id, kind.value)
        elif request_id in self._open.sent:
            # By the process that this one goes on for.
            self._open.sent.discard(request_id)
            self.tally.became(request_id, SENT)
        else:
            self.tally.became(request_id, Redrivable.DOUBLE.value)

    def _note(self, sendings: Sequence[Sending], errors: Sequence[KafkaUnavailable | None]) -> None:
        away: KafkaUnavailable | None = None
        not_taken = []
        for one, error in zip(sendings, errors, strict=True):
            request_id = one.letter.request_id
            if error is None:
                self._open.owed.discard(request_id)
                self.tally.became(request_id, SENT)
            elif isinstance(error, RecordRefused):
                not_taken.append(one)
                self.tally.became(request_id, Redrivable.NOT_TAKEN.value)
            else:
                away = error
        if not_taken:
            self._take_back(not_taken)
        if away is not None:
            raise away

    def _take_back(self, not_taken: Sequence[Sending]) -> None:
        """Undo what was done for records that Kafka has certainly not taken."""
        names = [
            (one.letter.request_id, None if one.row is None else one.row.generation)
            for one in not_taken
        ]
        rows = self._tools.work.close_again(
            self._stands.redrive_id, names, by=self._stands.by, reason="Kafka takes no such record"
        )
        attempts = {one.request_id: one.attempt for one in not_taken}
        self._tools.tellings.failed(rows, [attempts[row.request_id] for row in rows])
        for one in not_taken:
            if one.reopened is None:
                self._tools.tellings.forget(one)
