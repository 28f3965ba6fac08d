"""The freeze: how far each partition is read, decided once before anything is read.

In this order, so that nothing is accused that was only on its way: first where each partition ends,
then what its workers have committed (so what it covers beyond the end is not read at all), then
where the window begins, and last where Kafka itself begins, which retention may move at any time.

Records are those that a worker sees: it reads without regard to transactions, so an aborted record
is a request like any other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from kafka.protocol.consumer import OffsetSpec

from feedback.clock import monotonic_s
from feedback.dead_letter_topics import dead_letter_topic
from feedback.errors import KafkaUnavailable, NotAvailable
from feedback.kafka_admin import connect_administrator
from feedback.retry_group import retry_group
from feedback.settings import KafkaSection, Settings
from spark_audit.compaction import compacted_of
from spark_audit.kafka_faults import heard
from spark_audit.manifest import Kind, Manifest, Partition
from spark_audit.window import Window

TIMEOUT_MS = 30_000
PAUSE_S = 0.2
# Strategies by which a failure becomes a dead letter.
KEPT = ("keep", "stop")

T = TypeVar("T")
# The partitions of each topic, and what each topic is for.
_Kinds = Mapping[TopicPartition, Kind]
Coordinates = tuple[str, int]


def freeze(
    settings: Settings,
    window: Window,
    *,
    now_ms: int,
    carried: Iterable[str] = (),
    carried_from: Mapping[Coordinates, int] | None = None,
) -> Manifest:
    """Return the limits within which a run reads.

    Args:
        settings: brokers, group, and the topics of `[audit]`.
        now_ms: epoch ms.
        carried: ids that an earlier run could not judge to the end.
        carried_from: by (topic, partition), the first offset of a carried request: it is read
            from there, even though it lies before the window.

    Raises:
        NotAvailable: Kafka is away, or a topic is missing or may not be read.
    """
    with _administrator(settings.kafka) as admin:
        try:
            kinds = _known(admin, settings.audit.topics, settings.kafka.group)
            partitions = _partitions(admin, settings, kinds, window.since_ms, carried_from or {})
            topics = {one.topic: kind for one, kind in kinds.items()}
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
        partitions=partitions,
        carried=tuple(sorted(set(carried))),
        compacted=compacted,
        lettered=_lettered(settings, topics),
    )


def _lettered(settings: Settings, there: Iterable[str]) -> tuple[str, ...]:
    """Return the request topics whose failures are kept, and whose dead letter topic is there."""
    group = settings.kafka.group
    return tuple(
        topic
        for topic in sorted(settings.audit.topics)
        if settings.worker.dead_letters_of(topic) in KEPT
        and dead_letter_topic(topic, group) in there
    )


def kind_of(name: str, topics: Iterable[str], group: str) -> Kind | None:
    """Return what a topic is for; None when it is not among those of these request topics.

    >>> kind_of("pay.g.retry.5s", ["pay"], "g")
    <Kind.RETRY: 'retry'>
    >>> kind_of("pay.other.dlq", ["pay"], "g") is None
    True
    """
    if name in topics:
        return Kind.REQUEST
    for topic in topics:
        own = f"{topic}.{group}."
        if name in (f"{own}dlq", f"{own}wait"):
            return Kind(name.removeprefix(own))
        if name.startswith(f"{own}retry.") and len(name) > len(f"{own}retry."):
            return Kind.RETRY
    return None


def _partitions(
    admin: KafkaAdminClient,
    settings: Settings,
    kinds: _Kinds,
    since_ms: int,
    carried_from: Mapping[Coordinates, int],
) -> tuple[Partition, ...]:
    ends = _offsets(admin, dict.fromkeys(kinds, OffsetSpec.LATEST))
    committed = _committed(admin, settings.kafka.group, kinds)
    since = _offsets(admin, dict.fromkeys(kinds, since_ms))
    begins = _offsets(admin, dict.fromkeys(kinds, OffsetSpec.EARLIEST))
    found = []
    for one, kind in kinds.items():
        end, begin, mark = ends[one], begins[one], committed.get(one)
        # No record so late, or none at all: nothing to read.
        wanted = since[one] if since[one] >= 0 else end
        wanted = min(wanted, carried_from.get((one.topic, one.partition), wanted), end)
        found.append(
            Partition(
                kind=kind.value,
                topic=one.topic,
                partition=one.partition,
                begin=begin,
                start=max(wanted, begin),
                end=max(end, begin),
                committed=None if mark is None or mark.offset < 0 else mark.offset,
            )
        )
    order = list(Kind)
    found.sort(key=lambda one: (order.index(Kind(one.kind)), one.topic, one.partition))
    return tuple(found)


def _committed(
    admin: KafkaAdminClient, group: str, kinds: _Kinds
) -> Mapping[TopicPartition, OffsetAndMetadata]:
    """Return what the workers have committed, in their group and in that of their retries."""
    asked: dict[str, list[TopicPartition]] = {}
    for one, kind in kinds.items():
        asked.setdefault(retry_group(group) if kind is Kind.RETRY else group, []).append(one)
    found = _patiently(lambda: admin.list_group_offsets(asked))
    return {one: mark for marks in found.values() for one, mark in marks.items()}


def _known(admin: KafkaAdminClient, topics: Sequence[str], group: str) -> _Kinds:
    there = admin.list_topics()
    asked = {name: kind for name in there if (kind := kind_of(name, topics, group))}
    # Those of the settings are asked for by name: a broker leaves out of its list what the user
    # may not see, and says so only when it is asked.
    asked |= dict.fromkeys(topics, Kind.REQUEST)
    known: dict[TopicPartition, Kind] = {}
    for found in admin.describe_topics(sorted(asked)):
        _require(found)
        for one in found["partitions"]:
            known[TopicPartition(found["name"], one["partition_index"])] = asked[found["name"]]
    return known


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
    admin: KafkaAdminClient, asked: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    if not asked:
        return {}
    answers = _patiently(lambda: admin.list_partition_offsets(dict(asked), timeout_ms=TIMEOUT_MS))
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
