"""The dead letters of a group, read from its topics once, page by page."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from consumer.dlq.dialects.letter_headers import letter_of
from consumer.dlq.letter import Letter
from consumer.journal.lookup import Lookup
from feedback.errors import NotAvailable
from feedback.kafka.questions import committed_topics
from feedback.kafka.scan import KafkaScan, OffsetSpan, OffsetSpans, ScanPage
from feedback.kafka.values import Partition
from feedback.records.dead_letter_topics import (
    dead_letter_topic,
    is_dead_letter_topic,
    source_topic,
)
from feedback.settings.settings import KafkaSection, Settings

# A letter is written after its failure, but by the time of another clock.
CLOCKS_APART_MS = 3_600_000


class LetterPage(NamedTuple):
    """Some letters, with the positions of the reading behind them; see `ScanPage`."""

    letters: list[Letter]
    positions: dict[Partition, int]
    read: int
    total: int


class LetterReader:
    """Reads dead letters; memory does not grow with their number. Belongs to one thread.

    Args:
        topics: only the letters of these topics; all topics by default.
        dlqs: dead letter topics by their own names, of any writer; they replace the group's own.
        read: topics that the group has certainly read. Kafka lists none that we may not see, so
            their dead letter topics are asked for by name, and a hidden one is refused; so are
            those of the topics in the group's committed offsets.
    """

    def __init__(
        self,
        settings: KafkaSection,
        *,
        topics: Collection[str] = (),
        dlqs: Collection[str] = (),
        read: Collection[str] = (),
    ) -> None:
        self._settings = settings
        self._group = settings.group
        self._topics = frozenset(topics)
        self._dlqs = frozenset(dlqs)
        self._read = frozenset(read)
        self._scan = KafkaScan(settings)

    def __enter__(self) -> LetterReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def topic_ids(self) -> Mapping[str, str]:
        """The ids of the topics of the last spans; see `KafkaScan`."""
        return self._scan.topic_ids

    def ids_of(self, topics: Collection[str]) -> Mapping[str, str]:
        """Return the ids of dead letter topics as they are now; see `KafkaScan`."""
        return self._scan.ids_of(topics)

    def spans(self, *, since_ms: int | None = None) -> OffsetSpans:
        """Return the offsets that can be read now.

        Args:
            since_ms: epoch ms; letters that failed before may be left out.

        Raises:
            NotAvailable: Kafka is away, a named topic does not exist, or a right is missing.
        """
        from_ms = None if since_ms is None else since_ms - CLOCKS_APART_MS
        return self._scan.spans(self._names(), since_ms=from_ms)

    def pages(self, spans: Mapping[Partition, OffsetSpan]) -> Iterator[LetterPage]:
        """Yield the letters of spans, those of a partition in their order.

        Raises:
            KafkaUnavailable: Kafka did not answer in time.
        """
        for page in self._scan.pages(spans):
            yield LetterPage(self._letters(page), page.positions, page.read, page.total)

    def close(self) -> None:
        """Close the connection; a later call makes a new one."""
        self._scan.close()

    def _names(self) -> list[str]:
        there = set(self._scan.topics())
        if self._dlqs:
            return self._known(self._dlqs, there, there)
        if self._topics:
            # Before its first failure a topic has no dead letter topic.
            sources = self._known(self._topics, there, there | self._sources(there))
            return [*map(self._letters_of, sources)]
        # A group that reads dead letters has committed offsets there, and no letters of letters.
        committed = {source_topic(one, self._group) for one in committed_topics(self._settings)}
        own = self._sources(there) | self._read | committed - {""}
        if not own and (refusal := self._scan.why_unseen(there, self._letters_of)) is not None:
            raise refusal
        return sorted(map(self._letters_of, own))

    def _letters_of(self, topic: str) -> str:
        return dead_letter_topic(topic, self._group)

    def _sources(self, there: set[str]) -> set[str]:
        """Return the topics that have a dead letter topic of this group, even deleted topics."""
        own = [name for name in there if is_dead_letter_topic(name, self._group)]
        return {source_topic(name, self._group) for name in own} - {""}

    def _known(self, wanted: Collection[str], there: set[str], known: set[str]) -> list[str]:
        missing = sorted(set(wanted) - known)
        if missing:
            self._scan.spans(missing)  # Kafka lists none that we may not see; asked, it says so
            raise NotAvailable(f"there is no topic {', '.join(missing)}: correct its name")
        return sorted(wanted)

    def _letters(self, page: ScanPage) -> list[Letter]:
        letters = [letter_of(record) for record in page.records]
        if self._dlqs:
            return letters
        # `a.b.c.dlq` is that of group `c` on `a.b`, and of group `b.c` on `a`.
        return [one for one in letters if one.failure.group in (None, self._group)]


def journaled_letters(
    settings: Settings, *, topics: Collection[str] = (), dlqs: Collection[str] = ()
) -> LetterReader:
    """Return a reader of a group with a journal, which knows its topics where Kafka hides them.

    Raises:
        JournalUnavailable: the journal is away.
    """
    if topics or dlqs:
        return LetterReader(settings.kafka, topics=topics, dlqs=dlqs)
    with Lookup.from_settings(settings) as lookup:
        return LetterReader(settings.kafka, read=lookup.topics())
