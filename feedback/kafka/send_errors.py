"""How a send can fail: certainly not stored, or unknown."""

from __future__ import annotations

from feedback.errors import KafkaUnavailable


class RecordNotSent(KafkaUnavailable):
    """The record certainly did not reach Kafka."""


class TopicAway(RecordNotSent):
    """Kafka or the topic is away: the next record would only wait as long."""


class KafkaAway(TopicAway):
    """No broker answers: no topic can be reached now."""


class SenderClosed(TopicAway):
    """No server is away: the caller has closed its client."""


class OutOfTime(TopicAway):
    """Earlier records took all of its time: Kafka may be there."""


class TopicUnsafe(RecordNotSent):
    """The topic may lose acknowledged records, and the client asked for one that does not."""


class TopicUnknown(TopicAway):
    """Kafka answers, and knows no such topic."""


class TopicForbidden(RecordNotSent):
    """This user may not write there: a person has to allow it.

    Args:
        reason: Kafka's answer.
        topic: where; None for everywhere. An idempotent producer raises it for other topics as
            well.
    """

    def __init__(self, reason: str, topic: str | None) -> None:
        super().__init__(reason)
        self.topic = topic


class RecordUnknown(KafkaUnavailable):
    """The record may or may not be in Kafka."""
