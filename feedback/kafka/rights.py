"""Whether Kafka lets this user make topics, asked without making one."""

from __future__ import annotations

from collections.abc import Collection

from feedback.kafka.admin import administrator
from feedback.kafka.administrator import NewTopic
from feedback.kafka.errors import ClusterRefused, TopicRefused
from feedback.settings.settings import KafkaSection


def not_to_be_made(
    settings: KafkaSection, topics: Collection[str], *, timeout_s: float
) -> frozenset[str]:
    """Return those topics that this user may not make, whether they exist or not.

    Args:
        timeout_s: how long Kafka may take for an answer.

    Raises:
        KafkaUnavailable: Kafka did not answer.
    """
    if not topics:
        return frozenset()
    # A broker judges a right before it looks at a request.
    with administrator(settings, timeout_s=timeout_s) as admin:
        refused = admin.make(dict.fromkeys(topics, NewTopic()), only_rehearse=True)
    return frozenset(
        name for name, why in refused.items() if isinstance(why, TopicRefused | ClusterRefused)
    )
