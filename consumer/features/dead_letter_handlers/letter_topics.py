"""The topics that handlers of dead letters read: made beforehand where that can be, else awaited.

Perhaps nothing has failed yet, so the topics are not made. Their readers are subscribed all the
same: a topic that is made later is read then.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from consumer.features.dead_letters.letter import ROOM_BYTES
from consumer.handlers.declaration import Handler
from feedback.errors import KafkaUnavailable
from feedback.kafka.topics import KafkaTopics
from feedback.logs import EventLog
from feedback.settings.settings import Settings

log = EventLog("onceward.dead_letters")


class TopicMaker(Protocol):
    """Makes topics, and says which are missing."""

    def ensure(self, name: str, *, like: str, room_bytes: int = 0) -> None: ...
    def missing(self, names: list[str]) -> list[str]: ...


def expected(handlers: Iterable[Handler]) -> list[str]:
    """Return the topics that must exist for a worker to start."""
    return sorted(one.topic for one in handlers if one.dead_letters_of is None)


def prepare_in_kafka(settings: Settings, handlers: Iterable[Handler]) -> None:
    prepare_letter_topics(
        handlers, KafkaTopics(settings.kafka, create=settings.worker.create_topics)
    )


def prepare_letter_topics(handlers: Iterable[Handler], topics: TopicMaker) -> None:
    """Make the dead letter topics that are read here, as far as that is possible now.

    Args:
        topics: those of Kafka; where the worker may make none, missing ones are awaited.
    """
    for one in handlers:
        if one.dead_letters_of is None:
            continue
        try:
            # Made like a topic that is not there yet, it would keep its few partitions for ever.
            if topics.missing([one.dead_letters_of]):
                _await(one, f"topic {one.dead_letters_of} does not exist")
            else:
                topics.ensure(one.topic, like=one.dead_letters_of, room_bytes=ROOM_BYTES)
        except KafkaUnavailable as error:
            _await(one, str(error))


def _await(handler: Handler, reason: str) -> None:
    log.warning("dead_letters.topic_awaited", topic=handler.topic, reason=reason)
