"""The names that a group's registries have in Kafka. Pure."""

from __future__ import annotations


def group_of(group: str) -> str:
    """Return the consumer group of a group's registries.

    >>> group_of("payments")
    'payments.expire'
    """
    return f"{group}.expire"


def transactional_prefix(group: str) -> str:
    """Return the beginning of their transactional ids; topic and partition follow.

    >>> transactional_prefix("payments")
    'onceward.payments.expire.'
    """
    return f"onceward.{group_of(group)}."
