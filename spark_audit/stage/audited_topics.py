"""The topics of a day: the kind of each, its partitions, and the offsets that its readers have
committed.

A user without the right DescribeConfigs is not told. Such a topic then counts as not compacted, and
a hole in it is named: a finding that a person can explain is better than silence about a loss. A
wait topic is always compacted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from feedback.errors import NotAvailable
from feedback.kafka.questions import KafkaQuestions, NoSuchTopic
from feedback.kafka.values import Partition
from feedback.logs import EventLog
from feedback.records.dead_letter_topics import dead_letter_topic
from feedback.records.retry_group import retry_group
from feedback.settings.settings import Settings
from spark_audit.stage.manifest import Manifest, TopicKind

_POLICY = "cleanup.policy"

log = EventLog("onceward.audit")


def compacted_of(kafka: KafkaQuestions, kinds: Mapping[str, TopicKind]) -> tuple[str, ...]:
    """Return the topics that are compacted, by name."""
    policies = kafka.configs(kinds, _POLICY)
    unseen = sorted(set(kinds) - set(policies))
    if unseen:
        log.warning("audit.policy_unseen", topics=unseen, needs="DescribeConfigs")
    found = {name for name, policy in policies.items() if "compact" in policy.split(",")}
    return tuple(sorted(found | {name for name, kind in kinds.items() if kind is TopicKind.WAIT}))


# Strategies by which a failure becomes a dead letter.
KEPT = ("keep", "stop")

# The kind of each partition's topic.
Kinds = Mapping[Partition, TopicKind]


def kind_of(name: str, topics: Iterable[str], group: str) -> TopicKind | None:
    """Return the kind of a topic; None when it is not among those of these request topics.

    Beside the topic that it belongs to, a retry, wait or dead letter topic of the group is one of
    these also where it is named: its records are no requests of their own.

    >>> kind_of("pay.g.retry.5s", ["pay"], "g")
    <TopicKind.RETRY: 'retry'>
    >>> kind_of("pay.other.dlq", ["pay"], "g") is None
    True
    """
    for topic in topics:
        own = f"{topic}.{group}."
        if name in (f"{own}dlq", f"{own}wait"):
            return TopicKind(name.removeprefix(own))
        if name.startswith(f"{own}retry.") and len(name) > len(f"{own}retry."):
            return TopicKind.RETRY
    return TopicKind.REQUEST if name in topics else None


def partitions_of(
    kafka: KafkaQuestions, topics: Sequence[str], group: str, *, lettered: Iterable[str] = ()
) -> tuple[Kinds, Mapping[str, str]]:
    """Return the kind of each partition, and the id of each topic.

    Args:
        lettered: the request topics whose failures are kept.

    Raises:
        NotAvailable: a topic is missing, or may not be read.
    """
    asked = {name: kind for name in kafka.topics() if (kind := kind_of(name, topics, group))}
    # Those of the settings are asked for by name, and their dead letter topics: a broker leaves the
    # topics that the user may not see out of its list, and says so only when it is asked.
    asked |= {name: kind for name in topics if (kind := kind_of(name, topics, group))}
    letters = {dead_letter_topic(one, group): TopicKind.DLQ for one in lettered}
    try:
        found = kafka.describe(asked, if_there=letters.keys())
    except NoSuchTopic as error:
        raise NotAvailable(f"{error}: create it, or correct [audit] topics") from error
    asked |= letters
    kinds = {(one.name, number): asked[one.name] for one in found for number in one.partitions}
    return kinds, {one.name: one.topic_id for one in found}


def as_before(kinds: Kinds, ids: Mapping[str, str], fixed: Manifest) -> Kinds:
    """Return the partitions that the day was read from.

    Raises:
        NotAvailable: one of them is gone.
    """
    was = {(one.topic, one.partition): one.topic_id for one in fixed.links}
    for one, topic_id in was.items():
        if one not in kinds or ids[one[0]] != topic_id:
            raise NotAvailable(
                f"{fixed.date} cannot be read again: topic {one[0]} was deleted since"
            )
    return {one: kinds[one] for one in was}


def committed_of(kafka: KafkaQuestions, group: str, kinds: Kinds) -> Mapping[Partition, int]:
    """Return the offsets that the workers have committed, in their group and in that of their
    retries."""
    asked: dict[str, list[Partition]] = {}
    for one, kind in kinds.items():
        asked.setdefault(retry_group(group) if kind is TopicKind.RETRY else group, []).append(one)
    return kafka.group_offsets(asked)


def lettered_topics_of(settings: Settings) -> tuple[str, ...]:
    """Return the request topics whose failures are kept."""
    kept = settings.worker.dead_letters_of
    return tuple(topic for topic in sorted(settings.audit.topics) if kept(topic) in KEPT)
