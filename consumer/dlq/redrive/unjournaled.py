"""Sends letters of other systems back where no journal is asked.

What was sent back is found in Kafka alone, by our headers in the topics of origin: records behind
the letters (`sent_traces`). A process that dies repeats nothing when its command is given again. Of
two at once, each leaves a letter that the other has sent by the last look before its own write; a
letter that both wrote between their looks is counted by the one that ends last, at least.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import NamedTuple

from consumer.dlq.letter import Dialect, Letter
from consumer.dlq.letter_reader import CLOCKS_APART_MS, LetterReader
from consumer.dlq.listing import SeenNames
from consumer.dlq.redrive.loop import RedrivePace
from consumer.dlq.redrive.progress import CHOSEN, READ, SENT, NamedResults, PageUnderWay
from consumer.dlq.redrive.record import attempt_of, sending_of
from consumer.dlq.redrive.redrive_plan import MAX_REDRIVES, RedrivePlan, chunk_size
from consumer.dlq.redrive.redrive_session import REHEARSED, STOPPED, RedriveEnding
from consumer.dlq.redrive.risks import RedriveRisks
from consumer.dlq.redrive.sent_traces import SentTraces
from consumer.journal.redrive.redrive_row import DONE
from consumer.journal.redrive.redrive_rule import Redrivable
from feedback.clock import epoch_ms
from feedback.errors import KafkaUnavailable, NotAvailable
from feedback.kafka.outgoing import Outgoing, RecordRefused
from feedback.kafka.scan import KafkaScan, OffsetSpans
from feedback.kafka.writer import KafkaWriter
from feedback.records.envelope import new_request_id
from feedback.settings.settings import Settings


class _Kafka(NamedTuple):
    """The connections, and what they said at the beginning."""

    group: str
    letters: LetterReader
    traces: SentTraces
    writer: KafkaWriter
    topics: Collection[str]


def verdict_without_journal(
    letter: Letter,
    *,
    was_sent: bool = False,
    sends_again: bool = False,
    max_redrives: int = MAX_REDRIVES,
) -> Redrivable:
    """Return whether a letter may be sent back where no journal is asked.

    Args:
        was_sent: whether a record that was sent back for it stands in its topic.
        sends_again: whether that is no hindrance.
    """
    if letter.dialect is Dialect.ONCEWARD:
        return Redrivable.NEEDS_JOURNAL
    if letter.failure.redrive_count >= max_redrives:
        return Redrivable.TOO_OFTEN
    if was_sent and not sends_again:
        return Redrivable.SENT_BEFORE
    return Redrivable.SEND_UNKNOWN


def send_back(
    settings: Settings,
    plan: RedrivePlan,
    *,
    by: str,
    pace: RedrivePace,
    is_trial: bool = False,
    within: OffsetSpans | None = None,
) -> RedriveEnding:
    """Send back the letters of other systems that a plan chooses; a trial only counts them.

    Args:
        within: only letters in these spans: those that a person was asked about.

    Raises:
        NotAvailable: Kafka is away; the same command goes on.
    """
    with ExitStack() as stack:
        letters = stack.enter_context(
            LetterReader(settings.kafka, topics=plan.topics, dlqs=plan.dlqs)
        )
        scan = stack.enter_context(KafkaScan(settings.kafka, committed_only=False))
        redrive_id = new_request_id()
        traces = stack.enter_context(closing(SentTraces(scan, redrive_id=redrive_id)))
        writer = stack.enter_context(closing(KafkaWriter(settings.kafka)))
        own = stack.enter_context(SeenNames())
        kafka = _Kafka(settings.kafka.group, letters, traces, writer, frozenset(scan.topics()))
        spans = letters.spans(since_ms=plan.filter.since_ms) if within is None else within
        _begin_traces(kafka, plan, spans)
        one = _UnjournaledLoop(kafka, plan, pace, redrive_id=redrive_id, own=own)
        state = one.run(spans, by=by, is_trial=is_trial)
        if not is_trial:
            traces.look()
        return RedriveEnding(
            redrive_id="" if is_trial else redrive_id,
            state=state,
            counts=dict(one.counts.counts),
            of_named=one.answers.of_named,
            is_journaled=False,
            twice=traces.twice,
            twice_count=traces.twice_count,
            seen=spans,
            risks=one.risks,
        )


def _begin_traces(kafka: _Kafka, plan: RedrivePlan, spans: OffsetSpans) -> None:
    """Read the records that were sent back for the chosen letters, or for others."""
    homes: set[str] = set()
    oldest_ms: int | None = None
    for page in kafka.letters.pages(spans):
        for letter in page.letters:
            if plan.filter.takes(letter) and letter.home != letter.record.topic:
                homes.add(letter.home)
                oldest_ms = min(letter.record.timestamp_ms, oldest_ms or 2**62)
    since_ms = None if oldest_ms is None else oldest_ms - CLOCKS_APART_MS
    kafka.traces.begin(homes & set(kafka.topics), since_ms=since_ms)


class _UnjournaledLoop:
    def __init__(
        self,
        kafka: _Kafka,
        plan: RedrivePlan,
        pace: RedrivePace,
        *,
        redrive_id: str,
        own: SeenNames,
    ) -> None:
        self._kafka = kafka
        self._plan = plan
        self._pace = pace
        self._own = own
        self._redrive_id = redrive_id
        self.answers = NamedResults(plan.filter.ids)
        self.counts = PageUnderWay(self.answers, {}, read=0, total=0)
        self.risks = RedriveRisks()

    def run(self, spans: OffsetSpans, *, by: str, is_trial: bool) -> str:
        """Go through the letters; return the state at the end.

        Where the process dies after a writing, its records are found when it is given again.
        """
        for page in self._kafka.letters.pages(spans):
            chosen = [one for one in page.letters if self._plan.filter.takes(one)]
            self.counts.add(READ, len(page.letters))
            self.counts.add(CHOSEN, len(chosen))
            ready = list(self._ready(chosen))
            if is_trial:
                for one in ready:
                    self.counts.became(one.request_id, SENT)
            elif not self._send(ready, by=by):
                return STOPPED
            self._pace.on_progress(page.read, page.total)
            if self._pace.stopping.is_set() and page.read < page.total:
                return STOPPED
        return REHEARSED if is_trial else DONE

    def _ready(self, letters: Sequence[Letter]) -> Iterator[Letter]:
        for one in letters:
            what = self._plan.fault_of(one, self._kafka.topics) or self._verdict(one)
            if what is Redrivable.SEND_UNKNOWN:
                (is_new,) = self._own.add([one.request_id])
                what = what if is_new else Redrivable.DOUBLE
            if what is Redrivable.SEND_UNKNOWN:
                self.risks.add(self._kafka.traces.has(*_sending(one)))
                yield one
            else:
                self.counts.became(one.request_id, what.value)

    def _verdict(self, letter: Letter) -> Redrivable:
        return verdict_without_journal(
            letter,
            was_sent=self._kafka.traces.has(*_sending(letter)),
            sends_again=self._plan.sends_again,
            max_redrives=self._plan.max_redrives,
        )

    def _left_by_another(self, letters: Sequence[Letter]) -> list[Letter]:
        """Return the letters that no other redrive has sent since they were chosen."""
        self._kafka.traces.look()
        left = []
        for one in letters:
            if self._verdict(one) is Redrivable.SEND_UNKNOWN:
                left.append(one)
            else:
                self.counts.became(one.request_id, Redrivable.SENT_BEFORE.value)
        return left

    def _send(self, letters: Sequence[Letter], *, by: str) -> bool:
        """Write letters in portions; say whether all of them were written."""
        size, rate = chunk_size(self._pace.rate), self._pace.rate
        for at in range(0, len(letters), size):
            if self._pace.stopping.is_set():
                return False
            batch = self._left_by_another(letters[at : at + size])
            until = epoch_ms() + self._plan.valid_ms
            sendings = [self._sending(one, by=by, deadline_at=until) for one in batch]
            errors = self._kafka.writer.write(sendings)
            for one, error in zip(batch, errors, strict=True):
                self._became(one, error)
            if rate is not None:
                self._pace.stopping.wait(len(batch) / rate)
        return True

    def _sending(self, letter: Letter, *, by: str, deadline_at: int) -> Outgoing:
        return sending_of(
            letter,
            None,
            group=self._kafka.group,
            redrive_id=self._redrive_id,
            by=by,
            attempt=attempt_of(letter),
            deadline_at=deadline_at,
            value=self._plan.set_anew(letter),
            replaces=self._plan.setting is not None,
        ).outgoing

    def _became(self, letter: Letter, error: KafkaUnavailable | None) -> None:
        if error is None:
            self._kafka.traces.sent(*_sending(letter))
            self.counts.became(letter.request_id, SENT)
        elif isinstance(error, RecordRefused):
            self.counts.became(letter.request_id, Redrivable.NOT_TAKEN.value)
        else:
            raise NotAvailable(f"{error}; {GO_ON}") from error


GO_ON = "give the same command again: what was sent is found in its topic, and left"


def _sending(letter: Letter) -> tuple[str, int]:
    """Return a letter's request, and how often it is sent back with this sending."""
    return letter.request_id, letter.failure.redrive_count + 1
