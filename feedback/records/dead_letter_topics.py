"""Where the dead letters of a group are. Pure, and imported in every child: it needs nothing."""

from __future__ import annotations


def dead_letter_topic(topic: str, group: str) -> str:
    """Return where the dead letters of a group on this topic are."""
    return f"{topic}.{group}.dlq"


def is_dead_letter_topic(topic: str, group: str) -> bool:
    """Whether the dead letters of a group are there."""
    return topic.endswith(f".{group}.dlq")


def source_topic(topic: str, group: str) -> str:
    """Return the topic that a dead letter topic belongs to; of another one itself.

    >>> source_topic("payments.g.dlq", "g"), source_topic("payments", "g")
    ('payments', 'payments')
    """
    return topic.removesuffix(dead_letter_topic("", group))
