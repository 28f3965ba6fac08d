"""How a new client's first broker is awaited."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import KafkaError, KafkaException

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


def behind(**changed: object) -> dict[tuple[str, int], int] | None:
    """Return which partitions have more, by the statistics of one that is read from 5 to 9."""
    one = {
        "fetch_state": "active",
        "broker": 1,
        "next_offset": 5,
        "ls_offset": 9,
        "fetchq_cnt": 0,
        "fetchq_size": 0,
    }
    brokers = {
        "a": {"nodeid": 1, "state": "UP", "source": "learned"},
        "b": {"nodeid": 2, "state": "CONNECT", "source": "learned"},
        "bootstrap": {"nodeid": -1, "state": "UP", "source": "configured"},
        "GroupCoordinator": {"nodeid": 2, "state": "UP", "source": "logical"},
    }
    said = {"brokers": brokers, "topics": {"t": {"partitions": {"0": one | changed}}}}
    standing = ClientStanding(SETTINGS)
    standing.properties()["stats_cb"](json.dumps(said))
    found = standing.take_behind(most_records=500, most_bytes=1000)
    assert standing.take_behind(most_records=500, most_bytes=1000) is None
    return found


def test_a_partition_that_is_read_before_its_end_has_more() -> None:
    assert behind() == {("t", 0): 5}
    for changed in (
        {"next_offset": 9},
        {"next_offset": -1001},
        {"fetch_state": "stopped"},
        {"broker": 2},
        {"broker": -1},
    ):
        assert behind(**changed) == {}


def test_statistics_of_a_full_queue_say_nothing_of_it() -> None:
    assert behind(fetchq_cnt=500) is None
    assert behind(fetchq_size=1000) is None
    assert behind(fetchq_cnt=499, fetchq_size=999) == {("t", 0): 5}
