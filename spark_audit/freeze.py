"""The freeze: how far each partition is read, decided once before anything is read.

In this order, so that nothing is accused that was only on its way: first where each partition ends,
then what its workers have committed (so what it covers beyond the end is not read at all), then
where the window begins, and last where Kafka itself begins, which retention may move at any time.

Records are those that a worker sees, which reads what was committed: a partition ends before its
first open transaction, and what comes behind that is the next run's. Which of them the day judges
says `chain`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from kafka import OffsetAndMetadata, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import (
    GroupAuthorizationFailedError,
    KafkaError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)
from kafka.protocol.consumer import IsolationLevel, OffsetSpec
from sqlalchemy import make_url

from feedback.clock import monotonic_s
from feedback.dead_letter_topics import dead_letter_topic
from feedback.errors import KafkaUnavailable, NotAvailable
from feedback.kafka_admin import connect_administrator
from feedback.retry_group import retry_group
from feedback.settings import KafkaSection, Settings
from spark_audit.chain import Chain, Link, Reach, Start
from spark_audit.compaction import compacted_of
from spark_audit.kafka_faults import heard
from spark_audit.manifest import Kind, LogEnd, Manifest, Partition, Source
from spark_audit.window import Window

TIMEOUT_MS = 30_000
PAUSE_S = 0.2
# Strategies by which a failure becomes a dead letter.
KEPT = ("keep", "stop")

T = TypeVar("T")
# What the topic of each partition is for.
_Kinds = Mapping[TopicPartition, Kind]
Coordinates = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Limits:
    """What was frozen of one partition."""

    partition: Partition
    link: Link
    lost: str | None

    @property
    def order(self) -> tuple[int, str, int]:
        """By kind, topic and number."""
        kind = list(Kind).index(Kind(self.partition.kind))
        return kind, self.partition.topic, self.partition.partition


def freeze(
    settings: Settings,
    window: Window,
    *,
    now_ms: int,
    carried: Iterable[str] = (),
    carried_from: Mapping[Coordinates, int] | None = None,
    chain: Chain | None = None,
    fixed: Manifest | None = None,
) -> Manifest:
    """Return the limits within which a run reads.

    Args:
        settings: brokers, group, and the topics of `[audit]`.
        now_ms: epoch ms.
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
    with _administrator(settings.kafka) as admin:
        try:
            cluster_id = str(_patiently(admin.describe_cluster).get("cluster_id") or "")
            kinds, ids = _known(admin, settings.audit.topics, settings.kafka.group)
            topics = {one.topic: kind for one, kind in kinds.items()}
            if fixed is not None:
                kinds = _as_before(kinds, ids, fixed)
            found = _Freeze(settings, window, now_ms, chain, ids, carried_from or {}, fixed).limits(
                admin, kinds
            )
            compacted = _patiently(lambda: compacted_of(admin, topics))
        except TopicAuthorizationFailedError as error:
            raise NotAvailable(_no_right(settings, "Describe and Read on the topics")) from error
        except GroupAuthorizationFailedError as error:
            raise NotAvailable(_no_right(settings, "Describe on the group")) from error
        except KafkaError as error:
            raise _away(settings.kafka, error) from error
    return Manifest(
        date=window.date,
        since_ms=window.since_ms,
        until_ms=window.until_ms,
        frozen_at_ms=now_ms,
        journal_read_at_ms=0,
        group=settings.kafka.group,
        grace_ms=round(settings.audit.grace_s * 1000),
        deadline_s=settings.worker.deadline_s,
        partitions=tuple(one.partition for one in found),
        carried=tuple(sorted(set(carried))),
        compacted=compacted,
        lettered=_lettered(settings, topics),
        number=chain.number if fixed is None else fixed.number,
        before_ms=chain.before_ms,
        links=tuple(one.link for one in found),
        source=replace(source_of(settings), cluster_id=cluster_id),
        unseen=tuple(one.lost for one in found if one.lost is not None),
    )


def source_of(settings: Settings) -> Source:
    """Return what the settings name; of the servers themselves nothing is known yet."""
    return Source(
        topics=tuple(sorted(set(settings.audit.topics))),
        brokers=settings.kafka.bootstrap_servers,
        journal=make_url(settings.journal.url).render_as_string(hide_password=True),
    )


def cluster_id_of(settings: Settings) -> str:
    """Return what Kafka calls itself; empty where it has no name.

    Raises:
        NotAvailable: Kafka is away.
    """
    with _administrator(settings.kafka) as admin:
        try:
            return str(_patiently(admin.describe_cluster).get("cluster_id") or "")
        except KafkaError as error:
            raise _away(settings.kafka, error) from error


def _lettered(settings: Settings, there: Iterable[str]) -> tuple[str, ...]:
    """Return the request topics whose failures are kept, and whose dead letter topic is there."""
    group = settings.kafka.group
    return tuple(
        topic
        for topic in sorted(settings.audit.topics)
        if settings.worker.dead_letters_of(topic) in KEPT
        and dead_letter_topic(topic, group) in there
    )


def log_ends(settings: Settings, manifest: Manifest) -> tuple[LogEnd, ...]:
    """Return where the partitions of requests end now, open transactions included.

    Raises:
        NotAvailable: Kafka is away.
    """
    asked = {
        TopicPartition(one.topic, one.partition): OffsetSpec.LATEST
        for one in manifest.partitions
        if one.kind in (Kind.REQUEST, Kind.RETRY)
    }
    with _administrator(settings.kafka) as admin:
        try:
            ends = _offsets(admin, asked)
        except KafkaError as error:
            raise _away(settings.kafka, error) from error
    return tuple(LogEnd(one.topic, one.partition, offset) for one, offset in sorted(ends.items()))


def kind_of(name: str, topics: Iterable[str], group: str) -> Kind | None:
    """Return what a topic is for; None when it is not among those of these request topics.

    Beside the topic that it belongs to, a retry, wait or dead letter topic of the group is one of
    these also where it is named: its records are no requests of their own.

    >>> kind_of("pay.g.retry.5s", ["pay"], "g")
    <Kind.RETRY: 'retry'>
    >>> kind_of("pay.other.dlq", ["pay"], "g") is None
    True
    """
    for topic in topics:
        own = f"{topic}.{group}."
        if name in (f"{own}dlq", f"{own}wait"):
            return Kind(name.removeprefix(own))
        if name.startswith(f"{own}retry.") and len(name) > len(f"{own}retry."):
            return Kind.RETRY
    return Kind.REQUEST if name in topics else None


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
    carried_from: Mapping[Coordinates, int]
    fixed: Manifest | None

    def limits(self, admin: KafkaAdminClient, kinds: _Kinds) -> list[_Limits]:
        """Return them by kind, topic and number."""
        ends = _offsets(
            admin, dict.fromkeys(kinds, OffsetSpec.LATEST), isolation=IsolationLevel.READ_COMMITTED
        )
        committed = _committed(admin, self.settings.kafka.group, kinds)
        since = _offsets(admin, dict.fromkeys(kinds, self.window.since_ms))
        begins = _offsets(admin, dict.fromkeys(kinds, OffsetSpec.EARLIEST))
        fixed = () if self.fixed is None else self.fixed.partitions
        ends |= {TopicPartition(one.topic, one.partition): one.end for one in fixed}
        found = []
        for one, kind in kinds.items():
            begin, mark = begins[one], committed.get(one)
            end = max(ends[one], begin)
            # No record so late, or none at all: nothing to read.
            by_time = min(since[one], end) if since[one] >= 0 else end
            start, link = self._link(one, kind, by_time, begin, end)
            wanted = min(link.first, self.carried_from.get((one.topic, one.partition), end))
            partition = Partition(
                kind=kind.value,
                topic=one.topic,
                partition=one.partition,
                begin=begin,
                start=min(max(wanted, begin), end),
                end=end,
                committed=None if mark is None or mark.offset < 0 else mark.offset,
            )
            found.append(_Limits(partition, link, _lost(link, start)))
        return sorted(found, key=lambda one: one.order)

    def _link(
        self, one: TopicPartition, kind: Kind, by_time: int, begin: int, end: int
    ) -> tuple[Start, Link]:
        place, topic_id = (one.topic, one.partition), self.ids[one.topic]
        start = self.chain.start(
            place, topic_id, end=end, is_derived=one.topic not in self.settings.audit.topics
        )
        first = by_time if start.first is None else start.first
        reaches = tuple(reach for reach in start.reaches if reach.after > first)
        if self.fixed is None:
            own = Reach(
                number=self.chain.number,
                date=self.window.date,
                first=first,
                after=end,
                until_ms=self.window.until_ms,
                frozen_at_ms=self.now_ms,
                strays_from=min(begin, first) if start.is_first else first,
            )
            reaches = (*reaches, own)
        return start, Link(*place, topic_id, first, reaches, is_by_time=start.first is None)


def _lost(link: Link, start: Start) -> str | None:
    if start.lost_from is None:
        return None
    return (
        f"what {link.topic}-{link.partition} had from offset {start.lost_from} on when it was last "
        "read, and until the topic was made anew or its log was cut"
    )


def _as_before(kinds: _Kinds, ids: Mapping[str, str], fixed: Manifest) -> _Kinds:
    """Return the partitions that the day was read from.

    Raises:
        NotAvailable: one of them is gone.
    """
    was = {TopicPartition(one.topic, one.partition): one.topic_id for one in fixed.links}
    for one, topic_id in was.items():
        if one not in kinds or ids[one.topic] != topic_id:
            raise NotAvailable(
                f"{fixed.date} cannot be read again: topic {one.topic} was deleted since"
            )
    return {one: kinds[one] for one in was}


def _committed(
    admin: KafkaAdminClient, group: str, kinds: _Kinds
) -> Mapping[TopicPartition, OffsetAndMetadata]:
    """Return what the workers have committed, in their group and in that of their retries."""
    asked: dict[str, list[TopicPartition]] = {}
    for one, kind in kinds.items():
        asked.setdefault(retry_group(group) if kind is Kind.RETRY else group, []).append(one)
    found = _patiently(lambda: admin.list_group_offsets(asked))
    return {one: mark for marks in found.values() for one, mark in marks.items()}


def _known(
    admin: KafkaAdminClient, topics: Sequence[str], group: str
) -> tuple[_Kinds, Mapping[str, str]]:
    """Return what each partition is for, and the id of each topic."""
    there = admin.list_topics()
    asked = {name: kind for name in there if (kind := kind_of(name, topics, group))}
    # Those of the settings are asked for by name: a broker leaves out of its list what the user
    # may not see, and says so only when it is asked.
    asked |= {name: kind for name in topics if (kind := kind_of(name, topics, group))}
    known: dict[TopicPartition, Kind] = {}
    ids: dict[str, str] = {}
    for found in admin.describe_topics(sorted(asked)):
        _require(found)
        ids[found["name"]] = str(found.get("topic_id") or "")
        for one in found["partitions"]:
            known[TopicPartition(found["name"], one["partition_index"])] = asked[found["name"]]
    return known, ids


def _require(topic: Mapping[str, Any]) -> None:
    name, code = topic["name"], topic["error_code"]
    if code == UnknownTopicOrPartitionError.errno:
        raise NotAvailable(f"topic {name} does not exist: create it, or correct [audit] topics")
    if code == TopicAuthorizationFailedError.errno:
        raise NotAvailable(
            f"topic {name} may not be read: it needs the rights Describe and Read for this user"
        )
    if code:
        raise for_code(code)(f"topic {name}")


def _offsets(
    admin: KafkaAdminClient,
    asked: Mapping[TopicPartition, int],
    *,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[TopicPartition, int]:
    if not asked:
        return {}
    answers = _patiently(
        lambda: admin.list_partition_offsets(
            dict(asked), isolation_level=isolation, timeout_ms=TIMEOUT_MS
        )
    )
    return {one: answer.offset for one, answer in answers.items()}


def _patiently(ask: Callable[[], T]) -> T:
    """Return the answer, asked for again while the brokers choose a leader or a coordinator."""
    deadline_s = monotonic_s() + TIMEOUT_MS / 1000
    while True:
        try:
            return ask()
        except KafkaError as error:
            if not error.retriable or monotonic_s() >= deadline_s:
                raise
        time.sleep(PAUSE_S)


@contextmanager
def _administrator(settings: KafkaSection) -> Iterator[KafkaAdminClient]:
    with heard() as ear:
        try:
            admin = connect_administrator(settings, timeout_s=TIMEOUT_MS / 1000)
        except KafkaError as error:
            raise _away(settings, ear.fault or error) from error
        except (ValueError, OSError) as error:
            # An address that is none, a certificate that cannot be read.
            raise KafkaUnavailable(f"the [kafka] settings do not work: {error}") from error
    try:
        yield admin
    finally:
        admin.close()


def _no_right(settings: Settings, right: str) -> str:
    return f"Kafka at {settings.kafka.bootstrap_servers} refuses: this user needs {right}"


def _away(settings: KafkaSection, error: Exception) -> KafkaUnavailable:
    # Some of its errors begin with their own name.
    what = str(error) or type(error).__name__
    how = "is away"
    if isinstance(error, SaslAuthenticationFailedError):
        how = "refuses this user"
    elif settings.security_protocol.startswith("SASL"):
        how = "is away, or refuses this user"
    return KafkaUnavailable(f"Kafka at {settings.bootstrap_servers} {how}: {what}")
