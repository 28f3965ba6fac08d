"""Partitions that Kafka refuses: left out, tried again, and told of once."""

import logging
from collections.abc import Callable

import pytest

from feedback.errors import KafkaUnavailable
from feedback.kafka.partition_quarantine import QUIET_S, RETRY_S, PartitionQuarantine
from feedback.logs import event_of

Events = Callable[[], list[str]]

NOT_OURS = KafkaUnavailable("not ours")
ONE, OTHER = ("payments", 0), ("payments", 1)


@pytest.fixture
def events(caplog: pytest.LogCaptureFixture) -> Events:
    """Return a function: the names of the events that were logged so far."""
    caplog.set_level(logging.INFO, "onceward.set_aside")
    return lambda: [event_of(record) for record in caplog.records]


def test_what_fails_again_and_again_is_told_of_once(events: Events) -> None:
    aside = PartitionQuarantine()
    for now_s in (0.0, RETRY_S, 2 * RETRY_S):
        assert aside.due(now_s) == ([ONE] if now_s else [])
        aside.fail([ONE], NOT_OURS, now_s=now_s)
        assert list(aside.out) == [ONE]
    assert events() == ["partition.failed"]


def test_what_brings_records_again_is_back(events: Events) -> None:
    aside = PartitionQuarantine()
    aside.fail([ONE, OTHER], NOT_OURS, now_s=0.0)
    assert aside.due(RETRY_S - 0.1) == []
    assert aside.due(RETRY_S) == [ONE, OTHER]
    aside.note_polled([OTHER], now_s=RETRY_S)
    assert events() == ["partition.failed", "partition.failed", "partition.back"]
    aside.fail([ONE], NOT_OURS, now_s=RETRY_S)
    assert events() == ["partition.failed", "partition.failed", "partition.back"]


def test_what_is_quiet_for_a_while_is_back_without_records(events: Events) -> None:
    aside = PartitionQuarantine()
    aside.fail([ONE], NOT_OURS, now_s=0.0)
    aside.due(RETRY_S)
    aside.note_polled([], now_s=RETRY_S + QUIET_S - 0.1)
    assert events() == ["partition.failed"]
    aside.note_polled([], now_s=RETRY_S + QUIET_S)
    assert events() == ["partition.failed", "partition.back"]


def test_what_another_member_has_by_now_is_forgotten() -> None:
    aside = PartitionQuarantine()
    aside.fail([ONE, OTHER], NOT_OURS, now_s=0.0)
    aside.keep([OTHER])
    assert list(aside.out) == [OTHER]
