"""Whether a list without a topic of a kind proves that there is none.

Kafka's list leaves out the topics that a user may not see, and says so only when it is asked by
name. So names are needed: a group's committed offsets have those of the topics that it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from feedback.errors import SecurityKind
from feedback.kafka.administrator import Administrator, TopicDescription
from feedback.kafka.errors import GroupRefused, TopicAbsent, TopicRefused
from feedback.kafka.questions import KafkaQuestions
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


def committed_topics(admin: Administrator, group: str) -> set[str]:
    """Return the topics of a group's committed offsets; Kafka leaves out hidden topics here too.

    Raises:
        KafkaFault: Kafka did not answer, or this user may not ask about the group.
    """
    try:
        offsets = KafkaQuestions(admin).group_offsets({group: None})
    except GroupRefused as error:
        more = f"allow it the group {group}, with Describe"
        why = fault(SecurityKind.RIGHT, KAFKA, error.words, more=more)
        raise GroupRefused(f"the topics that the group reads: {why.said}").because(why) from error
    return {topic for topic, _ in offsets}
