"""The loop of a redrive: read letters, reopen their requests, write PENDING, send them back.

```
letters ─▶ chosen ─▶ reopen, save (journal) ─▶ PENDING (Redis) ─▶ origin topic (Kafka)
 one page ahead              the next batch      while this one is sent
```

There is one batch of letters at each stage, so memory does not grow with their number. If the
process dies at any point, the redrive goes on where it was saved. The journal names the requests
that were reopened since; their records stand in the topics behind the marks, or were not sent (see
`consumer/journal/redrive/redrive_work.py`). Each reopening saves the progress before it in its own
transaction.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from consumer.dlq.letter import Letter
from consumer.dlq.letter_reader import LetterPage, LetterReader
from consumer.dlq.listing import Advance
from consumer.dlq.redrive.batch_sender import (
    BatchSender,
    ReadyLetter,
    RedriveStatuses,
    ReopenedLetter,
    SentBatch,
)
from consumer.dlq.redrive.progress import (
    CHOSEN,
    READ,
    SENT,
    NamedResults,
    PageUnderWay,
    RedriveProgress,
)
from consumer.dlq.redrive.record import (
    RedriveRecord,
    SentScan,
    attempt_of,
    candidate_of,
    sending_of,
)
from consumer.dlq.redrive.redrive_plan import RedrivePlan, chunk_size
from consumer.features.outgoing.record_writer import RecordWriter
from consumer.journal.redrive.redrive_row import Redrive, RedriveStopped
from consumer.journal.redrive.redrive_rule import Redrivable
from consumer.journal.redrive.redrive_work import RedriveWork
from consumer.journal.redrive.reopening import TO_SEND, RedriveVerdict
from feedback.clock import epoch_ms, monotonic_s
from feedback.errors import KafkaUnavailable
from feedback.kafka.outgoing import RecordRefused
from feedback.kafka.scan import OffsetSpan, OffsetSpans, resumed

# While nothing is reopened, the progress is saved so often: it also proves that the process lives.
SAVE_S = 1.0
# So many new ids are remembered for the answer.
MOST_REPLACED = 1000


class RedriveConnections(NamedTuple):
    """The connections that a redrive needs, and the group whose letters they are."""

    group: str
    letters: LetterReader
    work: RedriveWork
    sent_scan: SentScan
    statuses: RedriveStatuses
    writer: RecordWriter
    topics: Collection[str]


@dataclass(frozen=True, slots=True)
class RedrivePace:
    """The pace of a redrive, and how to stop and watch it.

    Attributes:
        stopping: set to leave the rest.
        on_begun: called with the redrive's id, once its row is this process's.
    """

    rate: float | None = None
    stopping: threading.Event = field(default_factory=threading.Event)
    on_progress: Advance = lambda read, total: None
    on_begun: Callable[[str], None] = lambda redrive_id: None


class SpansLeft(NamedTuple):
    """The spans that a redrive still has to read.

    Args:
        spans: empty where a topic was deleted and made anew.
        left_out: of such topics, how many offsets of each are left out by that.
    """

    spans: OffsetSpans
    left_out: dict[str, int]


def spans_left(spans: OffsetSpans, plan: RedrivePlan, letters: LetterReader) -> SpansLeft:
    """Return spans without those of topics that were made anew since their letters were chosen."""
    anew = plan.made_anew(letters.ids_of(plan.topic_ids.keys() & {name for name, _ in spans}))
    left_out: Counter[str] = Counter()
    for (topic, _), span in spans.items():
        left_out[topic] += span.end - span.begin if topic in anew else 0
    left = {
        place: span._replace(begin=span.end) if place[0] in anew else span
        for place, span in spans.items()
    }
    return SpansLeft(left, dict(+left_out))


def rest_of(stands: Redrive, plan: RedrivePlan, letters: LetterReader) -> SpansLeft:
    """Return the spans from the positions of a redrive on."""
    spans = {place: OffsetSpan(*span) for place, span in stands.spans.items()}
    return spans_left(resumed(spans, stands.positions), plan, letters)


class RedriveLoop:
    """Goes through letters until the end, or until it is asked to stop.

    Args:
        stands: the redrive's row in the journal, owned by this process.

    Attributes:
        replaced: the new ids by the old ones, of the first requests that this process replaced.
    """

    def __init__(self, stands: Redrive, connections: RedriveConnections, pace: RedrivePace) -> None:
        self._stands = stands
        self._plan = RedrivePlan.from_json(stands.filter)
        self._connections = connections
        self._pace = pace
        self._free_s = 0.0
        self._saved_s = monotonic_s()
        self._under_way: tuple[PageUnderWay, Future[SentBatch]] | None = None
        self._answers = NamedResults(self._plan.filter.ids, stands.named)
        self.progress = RedriveProgress(stands, (), self._answers)
        self.replaced: dict[str, str] = {}

    def run(self) -> bool:
        """Send the letters back; say whether all of them were read.

        Nothing is under way any more when this returns or raises.

        Raises:
            RedriveStopped: it was cancelled, or another process runs it.
            KafkaUnavailable, JournalUnavailable: the server is away; the redrive can be resumed.
        """
        stands, connections = self._stands, self._connections
        if stands.unconfirmed:
            sent = connections.sent_scan.sent(stands.redrive_id, stands.marks)
            self.progress = RedriveProgress(stands, sent, self._answers)
        left, left_out = rest_of(stands, self._plan, connections.letters)
        if left_out:
            begins = {place: span.begin for place, span in left.items()}
            self.progress.leave_out(left_out, begins)
        with (
            ThreadPoolExecutor(1, thread_name_prefix="sender") as pool,
            closing(prefetched(connections.letters.pages(left))) as pages,
        ):
            sender = BatchSender(
                connections.statuses,
                connections.writer,
                record=self._record,
                replaces=self._plan.setting is not None,
                pool=pool,
            )
            try:
                is_done = all(self._go_through(page, sender) for page in pages)
            except RedriveStopped:
                self._settle()  # the batch under way is sent all the same
                raise
            self._settle()
        self._save()
        # A resume needs a new value; nobody does once all is sent.
        forgotten = self._plan.forgotten() if is_done else None
        connections.work.leave(stands.redrive_id, is_done=is_done, filter_text=forgotten)
        return is_done

    def _go_through(self, page: LetterPage, sender: BatchSender) -> bool:
        """Send back the chosen letters of a page; say whether to go on behind it."""
        chosen = [one for one in page.letters if self._plan.filter.takes(one)]
        passing = self.progress.begin(page.positions, read=page.read, total=page.total)
        passing.add(READ, len(page.letters))
        passing.add(CHOSEN, len(chosen))
        ready = list(self._ready(chosen, passing))
        size = chunk_size(self._pace.rate)
        for at in range(0, len(ready), size):
            if self._wait_is_cut():
                return False
            self._send_back(passing, ready[at : at + size], sender)
        passing.is_handed_over = True
        if self._under_way is None:
            self._finish()
        if monotonic_s() - self._saved_s > SAVE_S:
            self._save()
        return not self._pace.stopping.is_set() or page.read == page.total

    def _ready(self, letters: Sequence[Letter], passing: PageUnderWay) -> Iterator[ReadyLetter]:
        for one in letters:
            fault = self._plan.fault_of(one, self._connections.topics)
            if fault is None:
                yield ReadyLetter(one, self._plan.set_anew(one))
            else:
                passing.became(one.request_id, fault.value)

    def _wait_is_cut(self) -> bool:
        """Wait until the rate allows more; say whether it is time to stop."""
        return self._pace.stopping.wait(max(0.0, self._free_s - monotonic_s()))

    def _send_back(
        self, passing: PageUnderWay, ready: Sequence[ReadyLetter], sender: BatchSender
    ) -> None:
        passing.reopening(
            [one.letter.request_id for one in ready],
            self._connections.sent_scan.marks({one.letter.home for one in ready}),
        )
        so_far = self.progress.so_far()
        judged = self._connections.work.reopen(
            [candidate_of(one.letter) for one in ready],
            self._plan.wish(
                self._stands.redrive_id,
                frozenset(self.progress.owed),
                began_at=self._stands.started_at,
            ),
            valid_ms=self._plan.valid_ms,
            by=self._stands.by,
            reason=self._stands.reason,
            so_far=so_far,
        )
        self.progress.saved(so_far)
        self._saved_s = monotonic_s()
        self._settle()
        batch = self._to_send(passing, ready, judged)
        if self._pace.rate is not None:
            self._free_s = max(self._free_s, monotonic_s()) + len(batch) / self._pace.rate
        self._under_way = passing, sender.start(batch)

    def _to_send(
        self, passing: PageUnderWay, ready: Sequence[ReadyLetter], judged: Sequence[RedriveVerdict]
    ) -> list[ReopenedLetter]:
        batch = []
        for one, found in zip(ready, judged, strict=True):
            request_id = one.letter.request_id
            if found.kind in TO_SEND:
                # From here on another letter of the same request is a double.
                self.progress.owed.discard(request_id)
                batch.append(ReopenedLetter(one, found.row))
            elif found.kind is not Redrivable.SENT:
                passing.became(request_id, found.kind.value)
            elif request_id in self.progress.sent:
                # The process before this one has sent it.
                self.progress.sent.discard(request_id)
                passing.became(request_id, SENT)
            else:
                passing.became(request_id, Redrivable.DOUBLE.value)
        return batch

    def _record(self, one: ReopenedLetter, told: int) -> RedriveRecord:
        (letter, value), row = one
        replaces, until = self._plan.setting is not None, epoch_ms() + self._plan.valid_ms
        return sending_of(
            letter,
            row,
            group=self._connections.group,
            redrive_id=self._stands.redrive_id,
            by=self._stands.by,
            attempt=max(0 if row is None else row.attempt, attempt_of(letter), told),
            deadline_at=until if row is None or replaces else row.deadline_at,
            value=value,
            replaces=replaces,
            # The journal has compared it with the letter's.
            known_sha256=None if row is None else row.payload_sha256,
        )

    def _settle(self) -> None:
        """Wait for the batch that is being sent, and note its results."""
        if self._under_way is None:
            return
        passing, coming = self._under_way
        self._under_way = None
        batch = coming.result()
        passing.published += batch.published
        self._note(passing, batch)
        self._finish()

    def _note(self, passing: PageUnderWay, batch: SentBatch) -> None:
        away: KafkaUnavailable | None = None
        not_taken = []
        for one, error in zip(batch.sendings, batch.errors, strict=True):
            if error is None:
                passing.became(one.letter.request_id, SENT)
                if self._plan.setting is not None and len(self.replaced) < MOST_REPLACED:
                    self.replaced[one.letter.request_id] = one.request_id
            elif isinstance(error, RecordRefused):
                not_taken.append(one)
                passing.became(one.letter.request_id, Redrivable.NOT_TAKEN.value)
            else:
                away = error
        if not_taken:
            self._take_back(not_taken)
        if away is not None:
            raise away

    def _finish(self) -> None:
        done = self.progress.finish()
        if done is not None:
            self._pace.on_progress(done.read, done.total)

    def _save(self) -> None:
        so_far = self.progress.so_far()
        self._connections.work.save(self._stands.redrive_id, so_far)
        self.progress.saved(so_far)
        self._saved_s = monotonic_s()

    def _take_back(self, not_taken: Sequence[RedriveRecord]) -> None:
        """Close the requests again whose records Kafka has certainly refused."""
        names = [
            (one.letter.request_id, None if one.row is None else one.row.generation)
            for one in not_taken
        ]
        rows = self._connections.work.close_again(
            self._stands.redrive_id, names, by=self._stands.by, reason="Kafka takes no such record"
        )
        attempts = {one.request_id: one.attempt for one in not_taken}
        self._connections.statuses.failed(rows, [attempts[row.request_id] for row in rows])
        for one in not_taken:
            if one.reopened is None:
                self._connections.statuses.forget(one)


Item = TypeVar("Item")
_END = object()


def prefetched(items: Iterator[Item]) -> Generator[Item]:
    """Yield the same items; each is made in a thread of its own while the one before is in use.

    At most one item is made ahead. A caller that stops early closes this iterator, which waits for
    the item that is being made. An error of `items` is raised here, in its turn.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="prefetch") as pool:
        coming = pool.submit(next, items, _END)
        while (item := coming.result()) is not _END:
            coming = pool.submit(next, items, _END)
            yield item  # type: ignore[misc]
