"""Corrupt batches of which librdkafka, or the broker itself, says nothing or something else."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing

import pytest

from feedback.clock import monotonic_s
from feedback.kafka import partition_quarantine
from feedback.kafka.confluent import silent_partitions
from feedback.kafka.source import KafkaSource
from feedback.logs import event_of
from feedback.settings.settings import KafkaSection
from tests.eventually import eventually
from tests.feedback.kafka.engines.corrupt_log import (
    COUNT,
    FORMAT,
    PAUSES_S,
    SILENT,
    WHERE,
    CorruptLog,
    Polls,
    cases,
    read_past,
)
from tests.feedback.kafka.engines.members import LIMIT_S, MOST, POLL_S, Told, write
from tests.stack.restartable import Restartable
from tests.transactions import Transactions

SOON_S = 1.0
# In partition 1; far more than librdkafka fetches ahead.
BACKLOG = 15_000


@pytest.fixture
def engine() -> str:
    """Return the one of these tests."""
    return "confluent"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a silence be soon long."""
    for name in ("LONG_S", "AGAIN_S", "SILENCE_S"):
        monkeypatch.setattr(silent_partitions, name, SOON_S)


@pytest.mark.parametrize(
    ("kind", "how", "where"),
    cases(SILENT | FORMAT, ("plain", "long", "first"), ("plain", "cut", "last")),
)
def test_a_member_names_it_and_goes_on_there_once_it_can_be_read(
    mortal_broker: Restartable, mortal_settings: KafkaSection, kind: str, how: str, where: str
) -> None:
    log = CorruptLog(mortal_broker, f"topic-{mortal_settings.group}", kind)
    read_past(log, mortal_settings, how, where)


@pytest.mark.parametrize(("kind", "how", "where"), cases(SILENT))
def test_a_member_that_is_paused_again_and_again_names_a_silent_partition_too(
    mortal_broker: Restartable, mortal_settings: KafkaSection, kind: str, how: str, where: str
) -> None:
    log = CorruptLog(mortal_broker, f"topic-{mortal_settings.group}", kind)
    read_past(log, mortal_settings, how, where, is_busy=True)


@pytest.mark.parametrize("is_busy", [False, pytest.param(True, marks=pytest.mark.long)])
def test_an_end_without_a_record_that_counts_is_no_silence(
    mortal_broker: Restartable, mortal_settings: KafkaSection, is_busy: bool
) -> None:
    log = CorruptLog(mortal_broker, f"topic-{mortal_settings.group}", "transactions")
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
        until_s = monotonic_s() + 4 * SOON_S
        while monotonic_s() < until_s:
            polls.poll()
        assert not polls.failed


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
            self._buffered = max(0, self._buffered - 12)
            time.sleep(0.01)
            most = 150 - self._buffered
            if most > 25:
                self._source.resume()
            else:
                self._source.pause()
        for one in self._source.poll(0 if self._is_busy else POLL_S, max_records=most):
            self.read[one.partition] += 1
            self._buffered += 1


@pytest.mark.parametrize("is_busy", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_silent_partition_is_told_of_once_until_it_is_read_again(
    mortal_broker: Restartable,
    mortal_settings: KafkaSection,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    is_busy: bool,
) -> None:
    monkeypatch.setattr(partition_quarantine, "RETRY_S", 1.0)
    monkeypatch.setattr(partition_quarantine, "QUIET_S", 2.0)
    caplog.set_level("INFO")
    log = CorruptLog(mortal_broker, f"topic-{mortal_settings.group}", "plain")
    if is_busy:
        write(mortal_broker.address, log.topic, [b"x" * 100] * BACKLOG, partition=1)
    source = KafkaSource(mortal_settings, [log.topic])
    handling = Handling(source, is_busy=is_busy)

    def told(event: str) -> int:
        handling.poll()
        ours = [one for one in caplog.records if one.name.startswith("onceward")]
        return [event_of(one) for one in ours].count(event)

    with closing(source):
        with log.corrupt(WHERE["middle"], SILENT["long"]):
            eventually(lambda: told("partition.failed"), timeout_s=LIMIT_S)
            until_s = monotonic_s() + 6.0
            while monotonic_s() < until_s:
                assert told("partition.back") == 0
            assert told("partition.failed") == 1
            assert handling.read[0] == WHERE["middle"]
            assert (handling.read[1] < BACKLOG) if is_busy else (handling.read[1] == COUNT)
        eventually(lambda: told("partition.back"), timeout_s=LIMIT_S)
        eventually(lambda: told("") == 0 and handling.read[0] == COUNT, timeout_s=LIMIT_S)
