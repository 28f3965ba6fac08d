"""Corrupt batches of which librdkafka, or the broker itself, says nothing or something else."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing

import pytest

from feedback.clock import monotonic_s
from feedback.kafka import partition_quarantine
from feedback.kafka.confluent import silent_partitions
from feedback.kafka.errors import PartitionsFailed
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
from tests.feedback.kafka.engines.members import LIMIT_S, MOST, POLL_S, Told, write
from tests.stack.restartable import Restartable
from tests.transactions import Transactions

# Of statistics, which come twice a second.
SHORT = 3
AGAIN = 2
# Far more than librdkafka fetches ahead.
BACKLOG = 15_000
# What a worker takes for the records of a poll.
WORK_S = 0.1


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


def backlog(broker: Restartable, topic: str, count: int) -> None:
    """Let partition 1 have far more records than librdkafka fetches ahead."""
    write(broker.address, topic, [b"x" * 100] * count, partition=1)


def test_a_silent_partition_is_named_while_another_one_has_a_backlog(
    mortal_broker: Restartable, log: CorruptLog, mortal_settings: KafkaSection
) -> None:
    backlog(mortal_broker, log.topic, BACKLOG)
    with (
        log.corrupt(WHERE["middle"], LONG["long"]),
        closing(Told(mortal_settings, log.topic)) as told,
    ):
        failed: Counter[Partition] = Counter()
        read: Counter[int] = Counter()

        def is_named() -> bool:
            try:
                read.update(one.partition for one in told.member.poll(POLL_S, max_records=20))
            except PartitionsFailed as error:
                failed.update(error.partitions)
            time.sleep(WORK_S)
            return bool(failed)

        eventually(is_named, timeout_s=LIMIT_S)
    assert failed.keys() == {(log.topic, 0)}
    assert read[0] == WHERE["middle"]
    assert 0 < read[1] < BACKLOG


class Handling:
    """A source whose records are handled at a pace; while its buffer is full it is paused.

    Args:
        is_busy: so few records are handled in a second that the buffer is full again and again.

    Attributes:
        read: the records of each partition.
    """

    def __init__(self, source: KafkaSource, *, is_busy: bool) -> None:
        self._source = source
        self._is_busy = is_busy
        self._buffered = 0
        self.read: Counter[int] = Counter()

    def poll(self) -> None:
        """Poll once."""
        most = MOST
        if self._is_busy:
            self._buffered = max(0, self._buffered - 4)
            time.sleep(WORK_S / 10)
            most = 50 - self._buffered
            if most > 25:
                self._source.resume()
            else:
                self._source.pause()
        for one in self._source.poll(0 if self._is_busy else POLL_S, max_records=most):
            self.read[one.partition] += 1
            self._buffered += 1


@pytest.mark.parametrize("is_busy", [False, True], ids=["idle", "busy"])
def test_a_silent_partition_is_told_of_once_until_it_is_read_again(
    mortal_broker: Restartable,
    mortal_settings: KafkaSection,
    group: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    is_busy: bool,
) -> None:
    # Between two tries as soon as in a worker; only the time before the first, and the pause, end
    # sooner.
    monkeypatch.setattr(silent_partitions, "LONG", silent_partitions.AGAIN + 1)
    monkeypatch.setattr(partition_quarantine, "RETRY_S", 1.0)
    caplog.set_level("INFO")
    log = CorruptLog(mortal_broker, f"topic-{group}")
    if is_busy:
        backlog(mortal_broker, log.topic, BACKLOG)
    source = KafkaSource(mortal_settings, [log.topic])
    handling = Handling(source, is_busy=is_busy)

    def told(event: str) -> int:
        handling.poll()
        return [event_of(record) for record in caplog.records].count(event)

    with closing(source):
        with log.corrupt(WHERE["middle"], LONG["long"]):
            eventually(lambda: told("partition.failed"), timeout_s=LIMIT_S)
            until_s = monotonic_s() + 2 * (partition_quarantine.QUIET_S + 1.0)
            while monotonic_s() < until_s:
                assert told("partition.back") == 0
            assert told("partition.failed") == 1
            assert handling.read[0] == WHERE["middle"]
            assert (handling.read[1] < BACKLOG) if is_busy else (handling.read[1] == COUNT)
        eventually(lambda: told("partition.back"), timeout_s=LIMIT_S)
        eventually(lambda: told("") == 0 and handling.read[0] == COUNT, timeout_s=LIMIT_S)
