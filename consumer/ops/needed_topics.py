"""`onceward-worker topics`: the topics that the handlers need, whether they exist, and made."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from consumer.features.dead_letters.letter import ROOM_BYTES as LETTER_BYTES
from consumer.features.dead_letters.strategies import KEEP, STOP
from consumer.features.outcomes.outcomes import ROOM_BYTES as OUTCOME_BYTES
from consumer.features.retries.headers import retry_topics
from consumer.features.waits.wait_record import wait_topic
from consumer.features.waits.write_ahead import ROOM_BYTES as WAIT_BYTES
from consumer.handlers.backoff import delay_name
from consumer.handlers.declaration import DeliveryKind, Handler
from feedback.console.plurals import counted
from feedback.kafka.topic_facts import TopicFacts, facts_of
from feedback.kafka.topics import CLEANUP, COMPACT, KafkaTopics
from feedback.records.dead_letter_topics import dead_letter_topic
from feedback.settings.settings import Settings


def topic_as_json(one: TopicState) -> str:
    """Return a line of JSON."""
    facts = one.facts
    return json.dumps(
        {
            "topic": one.topic.name,
            "purpose": one.topic.purpose,
            "partitions": one.partitions,
            "replicas": facts.replicas if facts else 0,
            "settings": dict(facts.settings) if facts else {},
            "rights": sorted(facts.rights) if facts else [],
            "created": one.is_new,
            "fault": one.fault or None,
        }
    )


def topic_as_text(one: TopicState) -> str:
    """Return a line for a person; settings have Kafka's names."""
    words = [one.topic.name, one.topic.purpose, one.fault or ("created" if one.is_new else "there")]
    if (facts := one.facts) is not None:
        words.append(counted(facts.partitions, "partition"))
        words.append(f"on {counted(facts.replicas, 'broker')}")
        words += [f"{name}={value}" for name, value in facts.settings.items()]
        words.append(f"rights {','.join(sorted(facts.rights)) or 'not known'}")
    return "  ".join(words)


READS, WRITES = frozenset({"READ"}), frozenset({"WRITE"})


class NeededTopic(NamedTuple):
    """A topic that the handlers need.

    Args:
        purpose: in words.
        like: the topic whose partitions and replication it gets; itself for one of requests.
        room_bytes: how much larger than a record there a record here may be.
        is_compacted: whether it keeps the last record of each key, and nothing else.
        rights: that a user needs there; those of the worker where no other role is asked for.
    """

    name: str
    purpose: str
    like: str
    room_bytes: int = 0
    is_compacted: bool = False
    rights: frozenset[str] = READS


class TopicState(NamedTuple):
    """A needed topic, and how Kafka has it.

    Args:
        facts: of Kafka; None when it does not exist.
        fault: one sentence; empty when it is as it should be.
        is_new: whether it was made just now.
    """

    topic: NeededTopic
    facts: TopicFacts | None
    fault: str = ""
    is_new: bool = False

    @property
    def partitions(self) -> int:
        """How many it has; 0 when it does not exist."""
        return 0 if self.facts is None else self.facts.partitions


def needed_topics(settings: Settings, handlers: Iterable[Handler]) -> list[NeededTopic]:
    """Return the topics that these handlers need, each once, those of requests first.

    Raises:
        SettingsError: a name would be longer than Kafka allows.
    """
    handlers = list(handlers)
    requests = [
        NeededTopic(one.topic, "requests", one.topic)
        for one in handlers
        if one.dead_letters_of is None
    ]
    beside = [*_of_retries(handlers, settings.kafka.group), *_of_letters(settings, handlers)]
    for one in handlers:
        source = one.dead_letters_of or one.topic
        if one.outcome_topic is not None:
            room = settings.worker.max_result_bytes + OUTCOME_BYTES
            purpose = f"outcomes of {one.topic}"
            beside.append(NeededTopic(one.outcome_topic, purpose, source, room, rights=WRITES))
        if one.delivery is DeliveryKind.AT_LEAST_ONCE:
            name = wait_topic(one.topic, settings.kafka.group)
            purpose = f"unfinished requests of {one.topic}"
            beside.append(
                NeededTopic(
                    name, purpose, source, WAIT_BYTES, is_compacted=True, rights=READS | WRITES
                )
            )
    needed: dict[str, NeededTopic] = {}
    for topic in [*requests, *beside]:
        # One topic may be named by two handlers: the writer's and the reader's.
        first = needed.setdefault(topic.name, topic)
        needed[topic.name] = first._replace(rights=first.rights | topic.rights)
    return [*needed.values()]


def names_of_topics(settings: Settings, handlers: Iterable[Handler]) -> list[str]:
    """Return the names of the needed topics; see `needed_topics`."""
    return [one.name for one in needed_topics(settings, handlers)]


def _of_retries(handlers: Iterable[Handler], group: str) -> Iterator[NeededTopic]:
    for name, (one, delay_ms) in retry_topics(handlers, group).items():
        purpose = f"retries of {one.topic} after {delay_name(delay_ms)}"
        like = one.dead_letters_of or one.topic
        yield NeededTopic(name, purpose, like, rights=READS | WRITES)


def _of_letters(settings: Settings, handlers: Iterable[Handler]) -> Iterator[NeededTopic]:
    for one in handlers:
        source = one.dead_letters_of or one.topic
        if one.dead_letters_of is not None or (
            settings.worker.dead_letters_of(one.topic) in (KEEP, STOP)
        ):
            name = dead_letter_topic(source, settings.kafka.group)
            rights = WRITES if one.dead_letters_of is None else READS | WRITES
            yield NeededTopic(
                name, f"dead letters of {source}", source, LETTER_BYTES, rights=rights
            )


def look_at_topics(
    settings: Settings,
    handlers: Iterable[Handler],
    *,
    create: bool,
    rights: Mapping[str, frozenset[str]] | None = None,
    partitions: int | None = None,
    replication: int | None = None,
) -> Iterator[TopicState]:
    """Yield the needed topics as Kafka has them; those of requests first.

    Args:
        create: whether to make missing ones.
        rights: that this user needs, by topic; None: those of the worker. A topic without one may
            be hidden from it.
        partitions: of new topics of requests; None: the broker's default.
        replication: of them; None: the broker's default.

    Raises:
        KafkaUnavailable: Kafka did not answer, or refused to make one.
    """
    topics = KafkaTopics(settings.kafka, create=create)
    needed = needed_topics(settings, handlers)
    there = facts_of(settings.kafka, [one.name for one in needed])
    for one in needed:
        is_new = create and one.name not in there
        if is_new:
            topics.ensure(
                one.name,
                like=one.like,
                room_bytes=one.room_bytes,
                compacted=one.is_compacted,
                partitions=partitions,
                replication=replication,
            )
            there |= facts_of(settings.kafka, [one.name])
        facts = there.get(one.name)
        asked = one if rights is None else one._replace(rights=rights.get(one.name, frozenset()))
        yield TopicState(asked, facts, topic_fault(asked, facts), is_new)


def topic_fault(needed: NeededTopic, facts: TopicFacts | None) -> str:
    """Return the fault of a topic in one sentence; empty when it is as it should be. Pure.

    >>> topic_fault(NeededTopic("pay", "requests", "pay"), None)
    'missing'
    """
    if facts is None:
        return "missing"
    if facts.is_hidden:
        return "this user may not see it: add an ACL" if needed.rights else ""
    policy = facts.settings.get(CLEANUP)
    if needed.is_compacted and policy is not None and COMPACT not in policy:
        return "not compacted: set cleanup.policy=compact"
    if facts.rights and (refused := needed.rights - facts.rights):
        return f"this user may not {' and '.join(sorted(refused))} it: add an ACL"
    return ""
