"""The names of dead letter topics. Pure, and without imports, since every child imports it."""

from __future__ import annotations


def dead_letter_topic(topic: str, group: str) -> str:
    """Return the dead letter topic of a group for this topic."""
    return f"{topic}.{group}.dlq"


def is_dead_letter_topic(topic: str, group: str) -> bool:
    """Whether the topic is a dead letter topic of this group."""
    return topic.endswith(f".{group}.dlq")


def source_topic(topic: str, group: str) -> str:
    """Return the topic that a dead letter topic belongs to; any other topic unchanged.

    >>> source_topic("payments.g.dlq", "g"), source_topic("payments", "g")
    ('payments', 'payments')
    """
    return topic.removesuffix(dead_letter_topic("", group))
