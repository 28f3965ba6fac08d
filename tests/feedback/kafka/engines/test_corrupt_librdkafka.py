"""Corrupt batches of which librdkafka, or the broker itself, says nothing or something else."""

from __future__ import annotations

from collections import Counter
from contextlib import closing

import pytest

from feedback.clock import monotonic_s
from feedback.kafka import partition_quarantine
from feedback.kafka.confluent import silent_partitions
from feedback.kafka.source import KafkaSource
from feedback.kafka.values import Partition
from feedback.logs import event_of
from feedback.settings.settings import KafkaSection
from tests.eventually import eventually
from tests.feedback.kafka.engines.corrupt_log import (
    COUNT,
    FORMAT,
    LONG,
    PAUSES_S,
    WHERE,
    CorruptLog,
    Polls,
    read_past,
)
from tests.feedback.kafka.engines.members import LIMIT_S, MOST, POLL_S, Told
from tests.stack.restartable import Restartable
from tests.transactions import Transactions

# Of statistics, which come twice a second.
SHORT = 3
AGAIN = 2


@pytest.fixture
def engine() -> str:
    """Return the one of these tests."""
    return "confluent"


@pytest.fixture(params=[False, True], ids=["plain", "transactions"])
def log(
    mortal_broker: Restartable,
    group: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> CorruptLog:
    """Return a log, without and with transactions; a silence of it is soon long."""
    monkeypatch.setattr(silent_partitions, "LONG", SHORT)
    monkeypatch.setattr(silent_partitions, "AGAIN", AGAIN)
    return CorruptLog(mortal_broker, f"topic-{group}", in_transactions=request.param)


@pytest.mark.parametrize("how", LONG | FORMAT)
@pytest.mark.parametrize("where", WHERE)
def test_a_member_names_it_and_goes_on_there_once_it_can_be_read(
    log: CorruptLog, mortal_settings: KafkaSection, how: str, where: str
) -> None:
    read_past(log, mortal_settings, WHERE[where], (LONG | FORMAT)[how])


@pytest.mark.parametrize("where", WHERE)
def test_a_member_that_is_paused_again_and_again_names_a_silent_partition_too(
    log: CorruptLog, mortal_settings: KafkaSection, where: str
) -> None:
    read_past(log, mortal_settings, WHERE[where], LONG["long"], is_busy=True)


@pytest.mark.parametrize("is_busy", [False, True], ids=["idle", "busy"])
@pytest.mark.parametrize("log", [True], ids=["transactions"], indirect=True)
def test_an_end_without_a_record_that_counts_is_no_silence(
    mortal_broker: Restartable, log: CorruptLog, mortal_settings: KafkaSection, is_busy: bool
) -> None:
    with (
        Transactions(mortal_broker.address) as writer,
        closing(Told(mortal_settings, log.topic)) as told,
    ):
        writer.write(log.topic, b"aborted")
        writer.abort()
        writer.write(log.topic, b"open")
        polls = Polls(told, log, PAUSES_S["confluent"], is_busy=is_busy)

        def are_read() -> bool:
            polls.poll()
            return polls.read == {0: log.offsets, 1: log.offsets}

        eventually(are_read, timeout_s=LIMIT_S)
        until_s = monotonic_s() + 3 * SHORT * 0.5
        while monotonic_s() < until_s:
            polls.poll()
        assert not polls.failed


def test_a_silent_partition_is_told_of_once_until_it_is_read_again(
    mortal_broker: Restartable,
    mortal_settings: KafkaSection,
    group: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Between two tries as soon as in a worker; only the time before the first, and the pause, end
    # sooner.
    monkeypatch.setattr(silent_partitions, "LONG", silent_partitions.AGAIN + 1)
    monkeypatch.setattr(partition_quarantine, "RETRY_S", 1.0)
    caplog.set_level("INFO")
    log = CorruptLog(mortal_broker, f"topic-{group}")
    source, read = KafkaSource(mortal_settings, [log.topic]), Counter[Partition]()

    def told(event: str) -> int:
        read.update((one.topic, one.partition) for one in source.poll(POLL_S, max_records=MOST))
        return [event_of(record) for record in caplog.records].count(event)

    with closing(source):
        with log.corrupt(WHERE["middle"], LONG["long"]):
            eventually(lambda: told("partition.failed"), timeout_s=LIMIT_S)
            until_s = monotonic_s() + 2 * (partition_quarantine.QUIET_S + 1.0)
            while monotonic_s() < until_s:
                assert told("partition.back") == 0
            assert told("partition.failed") == 1
            assert read == {(log.topic, 0): WHERE["middle"], (log.topic, 1): COUNT}
        eventually(lambda: told("partition.back"), timeout_s=LIMIT_S)
    assert read == {(log.topic, 0): COUNT, (log.topic, 1): COUNT}
