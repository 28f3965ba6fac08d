"""How a new client's first broker is awaited, and what its statistics tell."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import KafkaError, KafkaException

from feedback.kafka.confluent.silent_partitions import Unread
from feedback.kafka.confluent.standing import ClientStanding, await_broker
from feedback.kafka.errors import KafkaFault
from feedback.settings.settings import KafkaSection

SETTINGS = KafkaSection()


class FarBroker:
    """Answers after a time, in vain to whoever waits for less.

    Attributes:
        waited_s: the times for which it was asked.
    """

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        self.waited_s: list[float] = []

    def list_topics(self, *, timeout: float) -> None:
        """Answer, or be too late."""
        self.waited_s.append(timeout)
        if timeout < self._after_s:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    def poll(self, _: float) -> None:
        """Tell no error."""


def test_a_broker_that_takes_longer_than_a_look_is_awaited() -> None:
    far = FarBroker(0.7)
    await_broker(far, ClientStanding(SETTINGS), SETTINGS, 60.0)
    assert far.waited_s == [0.5, 1.0]


def test_one_that_takes_longer_than_there_is_time_is_away() -> None:
    far = FarBroker(0.7)
    with pytest.raises(KafkaFault, match="_TRANSPORT"):
        await_broker(far, ClientStanding(SETTINGS), SETTINGS, 0.0)


def test_statistics_tell_once_from_where_partitions_are_fetched_and_where_they_end() -> None:
    standing = ClientStanding(SETTINGS)
    one = {"fetch_state": "active", "next_offset": 5, "ls_offset": 9}
    said = {"topics": {"t": {"partitions": {"0": one, "1": one | {"ls_offset": -1001}}}}}
    standing.properties()["stats_cb"](json.dumps(said))
    assert standing.take_offsets() == {("t", 0): Unread(5, 9), ("t", 1): Unread(5, -1001)}
    assert standing.take_offsets() is None
