"""A member of a group, without a broker."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import TopicPartition
from kafka.errors import (
    GroupAuthorizationFailedError,
    IllegalStateError,
    KafkaError,
    TopicAuthorizationFailedError,
)

from feedback.kafka.errors import KafkaFault
from feedback.kafka.kafka_python.member import KafkaPythonMember
from feedback.settings.settings import KafkaSection

HERE = ("payments", 3)


class Consumer:
    """Raises an error where it is asked for a position."""

    def __init__(self, error: KafkaError) -> None:
        self._error = error

    def highwater(self, partition: TopicPartition) -> int:
        return 7

    def position(self, partition: TopicPartition, timeout_ms: int) -> int:
        raise self._error


def member(error: KafkaError) -> KafkaPythonMember:
    """Return a member whose consumer raises this."""
    made: Any = KafkaPythonMember.__new__(KafkaPythonMember)
    made._settings, made._consumer = KafkaSection(group="g"), Consumer(error)
    found: KafkaPythonMember = made
    return found


@pytest.mark.parametrize("error", [GroupAuthorizationFailedError, TopicAuthorizationFailedError])
def test_a_position_that_is_refused_is_a_fault_of_kafka(error: type[KafkaError]) -> None:
    refused = member(error("g"))
    with pytest.raises(KafkaFault, match=error.__name__):
        refused.position(HERE)
    with pytest.raises(KafkaFault, match=error.__name__):
        refused.is_read(HERE)


def test_a_partition_that_is_not_ours_has_no_position() -> None:
    gone = member(IllegalStateError("Partition is not assigned"))
    assert (gone.position(HERE), gone.is_read(HERE)) == (-1, False)
