"""The freeze: how far each partition is read, decided once before anything is read.

In this order, so that nothing is accused that was only on its way: first where each partition ends,
then the offsets that its workers have committed (those beyond the end are not read at all), then
where the window begins, and last where Kafka itself begins, which retention may move at any time.

A run that is made long after its day reads requests as far as the day went (`window`), and no
offset that it leaves out is lost: the next day begins there.

Records are those that a worker sees, which reads committed ones: a partition ends before its first
open transaction, and the records behind that are the next run's (`hanging` says when the day lacks
them). Which of them the day judges says `chain`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sqlalchemy import make_url

from feedback.kafka.questions import KafkaQuestions, asking
from feedback.kafka.values import Partition
from feedback.records.dead_letter_topics import dead_letter_topic
from feedback.settings.settings import Settings
from spark_audit.stage.audited_topics import (
    Kinds,
    as_before,
    committed_of,
    compacted_of,
    lettered_topics_of,
    partitions_of,
)
from spark_audit.stage.chain import Chain, ChainLink, ChainStart, RunReach
from spark_audit.stage.hanging import hidden_records
from spark_audit.stage.manifest import FrozenPartition, LogEnd, Manifest, SnapshotSource, TopicKind
from spark_audit.stage.window import Window, day_ends


@dataclass(frozen=True, slots=True)
class _Limits:
    """The limits of one partition.

    Args:
        lost: a sentence about records that are gone.
        hidden: one about records that nobody sees yet.
    """

    partition: FrozenPartition
    link: ChainLink
    lost: str | None
    hidden: str | None

    @property
    def order(self) -> tuple[int, str, int]:
        """By kind, topic and number."""
        kind = list(TopicKind).index(TopicKind(self.partition.kind))
        return kind, self.partition.topic, self.partition.partition


def freeze(
    settings: Settings,
    window: Window,
    *,
    now_ms: int,
    carried: Iterable[str] = (),
    carried_from: Mapping[Partition, int] | None = None,
    chain: Chain | None = None,
    fixed: Manifest | None = None,
) -> Manifest:
    """Return the limits within which a run reads.

    Args:
        carried: ids that an earlier run could not judge to the end.
        carried_from: by (topic, partition), the first offset of a carried request: it is read
            from there, even though it lies before the window.
        chain: the runs before; None for a folder's first.
        fixed: the day's earlier limits, where its offsets stay as they are.

    Raises:
        NotAvailable: Kafka is away, a topic is missing or may not be read, or one that is read
            again was deleted since.
    """
    chain = chain or Chain(window.date)
    with asking(settings.kafka) as kafka:
        cluster = kafka.cluster_id()
        group, lettered = settings.kafka.group, lettered_topics_of(settings)
        kinds, ids = partitions_of(kafka, settings.audit.topics, group, lettered=lettered)
        topics = {name: kind for (name, _), kind in kinds.items()}
        if fixed is not None:
            kinds = as_before(kinds, ids, fixed)
        found = _Freeze(settings, window, now_ms, chain, ids, carried_from or {}, fixed).limits(
            kafka, kinds
        )
        compacted = compacted_of(kafka, topics)
    return Manifest(
        date=window.date,
        since_ms=window.since_ms,
        until_ms=window.until_ms,
        frozen_at_ms=now_ms,
        journal_read_at_ms=0,
        group=group,
        grace_ms=round(settings.audit.grace_s * 1000),
        deadline_s=settings.worker.deadline_s,
        partitions=tuple(one.partition for one in found),
        carried=tuple(sorted(set(carried))),
        compacted=compacted,
        lettered=tuple(one for one in lettered if dead_letter_topic(one, group) in topics),
        number=chain.number if fixed is None else fixed.number,
        before_ms=chain.before_ms,
        links=tuple(one.link for one in found),
        source=replace(source_of(settings), cluster_id=cluster),
        unseen=tuple(one.lost for one in found if one.lost is not None),
        hidden=tuple(one.hidden for one in found if one.hidden is not None),
    )


def source_of(settings: Settings) -> SnapshotSource:
    """Return the sources that the settings name; the servers' own ids are not known yet."""
    return SnapshotSource(
        topics=tuple(sorted(set(settings.audit.topics))),
        brokers=settings.kafka.bootstrap_servers,
        journal=make_url(settings.journal.url).render_as_string(hide_password=True),
    )


def log_ends(settings: Settings, manifest: Manifest) -> tuple[LogEnd, ...]:
    """Return where the partitions of requests end now, open transactions included.

    Raises:
        NotAvailable: Kafka is away.
    """
    asked = [
        (one.topic, one.partition)
        for one in manifest.partitions
        if one.kind in (TopicKind.REQUEST, TopicKind.RETRY)
    ]
    with asking(settings.kafka) as kafka:
        ends = kafka.ends(asked)
    return tuple(LogEnd(*one, offset) for one, offset in sorted(ends.items()))


@dataclass(frozen=True, slots=True)
class _Freeze:
    """The limits of each partition.

    Args:
        ids: Kafka's own of each topic.
        fixed: as for `freeze`.
    """

    settings: Settings
    window: Window
    now_ms: int
    chain: Chain
    ids: Mapping[str, str]
    carried_from: Mapping[Partition, int]
    fixed: Manifest | None

    def limits(self, kafka: KafkaQuestions, kinds: Kinds) -> list[_Limits]:
        """Return them by kind, topic and number."""
        log_ends = kafka.ends(kinds)
        ends = kafka.committed_ends(kinds)
        committed = committed_of(kafka, self.settings.kafka.group, kinds)
        since = kafka.at_time(kinds, self.window.since_ms)
        begins = kafka.begins(kinds)
        read_to = self._read_to(kafka, kinds, ends)
        # A day that ends before the transaction lacks nothing by it.
        whole = {one: end for one, end in ends.items() if read_to.get(one, end) >= end}
        hidden = self._hidden(kafka, whole, log_ends)
        found = []
        for one, kind in kinds.items():
            begin = begins[one]
            log_end = max(ends[one], begin)
            start = self._start(one, log_end)
            day_end = read_to.get(one, log_end)
            if self.fixed is None and day_end < self._read_before(start):
                # The record that ends the day has a wrong clock: an earlier day has read it.
                day_end = log_end
            end = max(day_end, begin, self._at_least(start))
            # No record so late, or none at all: nothing to read.
            by_time = min(since[one], end) if since[one] >= 0 else end
            link = self._link(one, start, by_time, begin, end)
            wanted = min(link.first, self.carried_from.get(one, end))
            partition = FrozenPartition(
                kind=kind.value,
                topic=one[0],
                partition=one[1],
                begin=begin,
                start=min(max(wanted, begin), end),
                end=end,
                committed=committed.get(one),
            )
            found.append(_Limits(partition, link, _lost(link, start), hidden.get(one)))
        return sorted(found, key=lambda one: one.order)

    def _hidden(
        self,
        kafka: KafkaQuestions,
        committed_ends: Mapping[Partition, int],
        log_ends: Mapping[Partition, int],
    ) -> Mapping[Partition, str]:
        # Until the grace is over a transaction of the day may well be about to end.
        if self.now_ms < self.window.until_ms + self.settings.audit.grace_s * 1000:
            return {}
        return hidden_records(
            self.settings.kafka,
            kafka,
            committed_ends,
            log_ends,
            until_ms=self.window.until_ms,
            now_ms=self.now_ms,
        )

    def _read_to(
        self, kafka: KafkaQuestions, kinds: Kinds, log_ends: Mapping[Partition, int]
    ) -> Mapping[Partition, int]:
        """Return how far partitions are read, where that is not to the log's end.

        Retries, waits and dead letters are: the records there say how a request ended.
        """
        if self.fixed is not None:
            places = self.fixed.partitions
            return {(one.topic, one.partition): one.end for one in places}
        return day_ends(
            kafka,
            self.settings.kafka,
            {one: log_ends[one] for one, kind in kinds.items() if kind is TopicKind.REQUEST},
            until_ms=self.window.until_ms,
            now_ms=self.now_ms,
        )

    def _start(self, one: Partition, log_end: int) -> ChainStart:
        is_derived = one[0] not in self.settings.audit.topics
        return self.chain.start(one, self.ids[one[0]], end=log_end, is_derived=is_derived)

    def _read_before(self, start: ChainStart) -> int:
        """Return how far runs of earlier days have read it."""
        earlier = [one.after for one in start.reaches if one.date < self.window.date]
        return max([start.first or 0, *earlier])

    def _at_least(self, start: ChainStart) -> int:
        """Return how far it is read at least: from where it begins, and as far as earlier runs of
        the same day have read."""
        own = [one.after for one in start.reaches if one.date == self.window.date]
        return max([start.first or 0, *own])

    def _link(
        self, one: Partition, start: ChainStart, by_time: int, begin: int, end: int
    ) -> ChainLink:
        first = by_time if start.first is None else start.first
        reaches = tuple(reach for reach in start.reaches if reach.after > first)
        if self.fixed is None:
            own = RunReach(
                number=self.chain.number,
                date=self.window.date,
                first=first,
                after=end,
                until_ms=self.window.until_ms,
                frozen_at_ms=self.now_ms,
                strays_from=min(begin, first) if start.is_first else first,
            )
            reaches = (*reaches, own)
        return ChainLink(
            *one,
            self.ids[one[0]],
            first,
            reaches,
            is_by_time=start.first is None,
        )


def _lost(link: ChainLink, start: ChainStart) -> str | None:
    if start.lost_from is None:
        return None
    return (
        f"what {link.topic}-{link.partition} had from offset {start.lost_from} on when it was last "
        "read, and until the topic was made anew or its log was cut"
    )
