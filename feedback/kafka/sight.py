"""Whether a list without any topic of a kind proves that there is none.

Kafka's list leaves out the topics that a user may not see, and says so only when it is asked by
name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from feedback.errors import SecurityKind
from feedback.kafka.administrator import Administrator, TopicDescription
from feedback.kafka.errors import TopicAbsent, TopicRefused
from feedback.security import KAFKA, fault

# A topic that nobody has: who may see it, may see all.
_NOBODYS = "topic-of-nobody"


def why_unseen(
    admin: Administrator, there: Collection[str], beside: Callable[[str], str]
) -> TopicRefused | None:
    """Return why a user may see none of the topics beside others.

    None for a user who may see all topics, or at least one of these: it does not exist then.

    Args:
        there: the topics that Kafka has listed.
        beside: returns the name of the topic beside another one.

    Raises:
        KafkaFault: Kafka did not answer.
    """
    first = admin.describe([beside(_NOBODYS)])
    if not any(isinstance(one, TopicRefused) for one in first.values()):
        return None
    found = admin.describe([beside(one) for one in there])
    seen = any(isinstance(one, TopicDescription | TopicAbsent) for one in found.values())
    if seen:
        return None
    why = fault(SecurityKind.RIGHT, KAFKA, more=f"allow it the topics {beside('<topic>')}")
    return TopicRefused(f"no topic of this kind may be seen: {why.said}").because(why)
