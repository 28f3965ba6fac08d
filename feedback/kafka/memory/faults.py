"""The faults of a broker in memory, in the words of the port. Pure."""

from __future__ import annotations

from typing import TypeVar

from feedback.errors import SecurityKind
from feedback.kafka.errors import (
    ClusterRefused,
    GroupRefused,
    KafkaFault,
    TopicAbsent,
    TopicRefused,
)
from feedback.security import KAFKA, fault

FaultT = TypeVar("FaultT", bound=KafkaFault)


def refused(
    kind: type[FaultT], address: str, words: str, *, operation: str = "", more: str = ""
) -> FaultT:
    """Return the fault of a user without a right.

    Args:
        words: of Kafka.
        operation: on topics, as `Read`.
        more: another correction than that of the kind.
    """
    wanted = more or kind.correction.format(operation=f", with {operation}" if operation else "")
    why = fault(SecurityKind.RIGHT, KAFKA, words, more=wanted)
    found = kind(f"Kafka at {address}: {why.said}").because(why)
    found.words = words
    return found


def topic_refused(address: str, topic: str, operation: str) -> TopicRefused:
    """Return the fault of a user who may not do that with a topic."""
    words = f"TopicAuthorizationFailedError {topic}"
    return refused(TopicRefused, address, words, operation=operation)


def group_refused(address: str, group: str) -> GroupRefused:
    """Return the fault of a user who may not do that with a group."""
    return refused(GroupRefused, address, f"GroupAuthorizationFailedError {group}")


def name_refused(address: str, name: str) -> ClusterRefused:
    """Return the fault of a user who may not write under a transactional id."""
    words = f"TransactionalIdAuthorizationFailedError {name}"
    return refused(ClusterRefused, address, words, more="allow it the transactional id, with Write")


def absent(address: str, name: str) -> TopicAbsent:
    """Return the fault of a topic or a partition that is not there."""
    return said(TopicAbsent, address, f"UnknownTopicOrPartitionError {name}")


def said(kind: type[FaultT], address: str, words: str, *, is_passing: bool = False) -> FaultT:
    """Return a fault in the broker's words."""
    found = kind(f"Kafka at {address}: {words}")
    found.words, found.is_passing = words, is_passing
    return found
