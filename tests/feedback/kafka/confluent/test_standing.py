"""How a new client's first broker is awaited, and what its statistics tell of partitions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from feedback.kafka.confluent.silent_partitions import Fetching
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


Kind = dict[str, Any]


class Statistics:
    """Statistics of partitions that are read from 5 to 9, of one broker, one after the other."""

    def __init__(self) -> None:
        self._standing = ClientStanding(SETTINGS)
        self._fetches = 0

    def heard(
        self, *partitions: Kind, fetches: int = 1, throttled_ms: int = 0
    ) -> list[Fetching | None]:
        """Return how partitions are fetched, after so many fetches of their broker."""
        self._fetches += fetches
        one = {
            "fetch_state": "active",
            "broker": 1,
            "next_offset": 5,
            "ls_offset": 9,
            "fetchq_cnt": 0,
        }
        a = {
            "nodeid": 1,
            "state": "UP",
            "source": "learned",
            "req": {"Fetch": self._fetches},
            "throttle": {"max": throttled_ms},
        }
        brokers = {
            "a": a,
            "b": a | {"nodeid": 2, "state": "CONNECT"},
            "bootstrap": a | {"nodeid": -1, "source": "configured"},
            "GroupCoordinator": a | {"nodeid": 2, "source": "logical"},
        }
        found = {str(number): one | changed for number, changed in enumerate(partitions)}
        said = {"brokers": brokers, "topics": {"t": {"partitions": found}}}
        self._standing.properties()["stats_cb"](json.dumps(said))
        fetching = self._standing.take_fetching()
        assert fetching is not None
        assert self._standing.take_fetching() is None
        return [fetching.get(("t", number)) for number in range(len(partitions))]


def test_a_partition_that_is_read_before_its_end_has_more() -> None:
    statistics = Statistics()
    assert statistics.heard({}, fetches=7) == [Fetching(5, turns=0.0)]
    assert statistics.heard({}, fetches=3) == [Fetching(5, turns=3.0)]
    assert statistics.heard({"next_offset": 9}) == [Fetching(9, has_more=False)]
    for changed in (
        {"next_offset": -1001},
        {"ls_offset": -1001},
        {"fetch_state": "stopped"},
        {"broker": 2},
        {"broker": -1},
    ):
        assert statistics.heard(changed) == [None]


def test_a_broker_that_is_asked_for_nothing_or_holds_its_answers_back_gives_no_turns() -> None:
    statistics = Statistics()
    statistics.heard({})
    assert statistics.heard({}, fetches=0) == [Fetching(5, turns=0.0)]
    assert statistics.heard({}, throttled_ms=1) == [Fetching(5, turns=0.0)]
    assert statistics.heard({}) == [Fetching(5)]


def test_partitions_that_have_more_take_turns_with_all_of_their_broker() -> None:
    statistics, end = Statistics(), {"next_offset": 9}
    statistics.heard({}, end, {})
    found = statistics.heard({}, end, {}, fetches=6)
    assert [one and one.turns for one in found] == [2.0, 2.0, 2.0]
    # No batch of another one fills the answers.
    found = statistics.heard({}, end, end, fetches=6)
    assert [one and one.turns for one in found] == [6.0, 2.0, 2.0]


def test_where_records_wait_a_neighbour_that_moved_tells_that_there_was_an_answer() -> None:
    statistics, queued = Statistics(), {"fetchq_cnt": 1}

    def answered(*partitions: Kind) -> list[bool | None]:
        return [one and one.is_answered for one in statistics.heard(*partitions)]

    assert answered({}, {}) == [True, True]
    assert answered(queued, queued) == [False, False]
    assert answered(queued, queued | {"next_offset": 6}) == [True, False]
    # By a seek.
    assert answered(queued, queued) == [False, False]
