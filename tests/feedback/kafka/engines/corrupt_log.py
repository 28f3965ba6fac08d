"""A log of which a batch is corrupt on a broker's disk, and polls of a member that reads it.

The file is changed while the broker has it open: brokers send what is in the file, unlooked at.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer

from feedback.clock import monotonic_s
from feedback.kafka.errors import PartitionsFailed
from feedback.kafka.values import Partition
from feedback.settings.settings import KafkaSection
from tests.eventually import eventually
from tests.feedback.kafka.engines.grounds import RealGround
from tests.feedback.kafka.engines.members import LIMIT_S, MOST, POLL_S, Told
from tests.stack.restartable import Restartable
from tests.transactions import Transactions

COUNT = 6
WHERE = {"first": 0, "middle": COUNT // 2, "last": COUNT - 1}
# Without a null byte: librdkafka 2.16 may end the process where it finds some in such a batch.
# Longer than a broker takes for an answer, as the pause of a worker is longer than one may take:
# librdkafka goes where an answer sends it for which it has asked before.
PAUSES_S = {"kafka-python": 0.2, "confluent": 2.0}
VALUE = b"record %d, and more of it that librdkafka takes for a batch of its own " * 4

Corruption = Callable[[bytearray], None]


def _flip(batch: bytearray) -> None:
    batch[-3] ^= 0xFF


def _shorten(batch: bytearray) -> None:
    batch[8:12] = (int.from_bytes(batch[8:12], "big") - 37).to_bytes(4, "big")


def _negate(batch: bytearray) -> None:
    batch[8:12] = b"\xff\xff\xff\x00"


def _lengthen(batch: bytearray) -> None:
    batch[8:12] = (0x7FFFFF00).to_bytes(4, "big")


def _cut(batch: bytearray) -> None:
    batch[8:12] = (20).to_bytes(4, "big")


def _rename(batch: bytearray) -> None:
    batch[16] = 7


# Those of which librdkafka or the broker has a word.
TOLD: dict[str, Corruption] = {"bytes": _flip, "short": _shorten, "negative": _negate}
# A length of which neither says anything: it ends behind the file, or before the batch's own words.
SILENT: dict[str, Corruption] = {"long": _lengthen, "cut": _cut}
# No checksum covers the version of the format, which kafka-python does not look at.
FORMAT: dict[str, Corruption] = {"format": _rename}
HOW = TOLD | SILENT | FORMAT


class LogFile:
    """The file of a partition's log, of which the broker of a test has one.

    Args:
        broker: has the file.
        topic: of one partition or more.
        partition: its number.
    """

    def __init__(self, broker: Restartable, topic: str, partition: int = 0) -> None:
        (self._file,) = Path(broker.folder, "data", f"{topic}-{partition}").glob("*.log")

    @contextmanager
    def corrupt(self, offset: int, how: Corruption) -> Iterator[None]:
        """Let the batch that begins at an offset be corrupt for the length of the block."""
        at, whole = self._batch(offset)
        corrupt = bytearray(whole)
        how(corrupt)
        assert corrupt != whole
        self._put(at, corrupt)
        try:
            yield
        finally:
            self._put(at, whole)

    def _batch(self, offset: int) -> tuple[int, bytes]:
        data, at = self._file.read_bytes(), 0
        while True:
            base, length = struct.unpack_from(">qi", data, at)
            if base == offset:
                return at, data[at : at + 12 + length]
            at += 12 + length

    def _put(self, at: int, data: bytes | bytearray) -> None:
        with self._file.open("r+b") as opened:
            opened.seek(at)
            opened.write(data)


class CorruptLog:
    """The records of one topic with two partitions, each a batch of its own, and their file.

    Args:
        kind: `plain`; or `transactions`, each of one record, with its mark behind it.

    Attributes:
        offsets: of the records of a partition.
    """

    def __init__(self, broker: Restartable, topic: str, kind: str) -> None:
        self.topic = topic
        step = 2 if kind == "transactions" else 1
        self.offsets = [step * number for number in range(COUNT)]
        RealGround(broker.address).make_topic(topic, 2)
        values = [self.value(offset) for offset in self.offsets]
        if step > 1:
            with Transactions(broker.address) as writer:
                for partition, value in product(range(2), values):
                    writer.write(topic, value, partition=partition)
                    writer.commit()
        else:
            with closing(KafkaProducer(bootstrap_servers=broker.address)) as producer:
                for partition, value in product(range(2), values):
                    producer.send(topic, value, partition=partition).get(timeout=LIMIT_S)
        self._file = LogFile(broker, topic)

    def value(self, offset: int) -> bytes:
        """Return the value of the record at an offset."""
        return VALUE.replace(b"%d", b"%d" % self.offsets.index(offset))

    def corrupt(self, number: int, how: Corruption) -> AbstractContextManager[None]:
        """Let the batch of a record of partition 0 be corrupt for the length of a block."""
        return self._file.corrupt(self.offsets[number], how)


class Polls:
    """Polls a member as its caller does: a partition that failed is paused for a while.

    Args:
        pause_s: so long.
        is_busy: all partitions are paused again and again, as of a worker with a full buffer.

    Attributes:
        read: the offsets of the records of each partition.
        failed: how often each has failed.
    """

    def __init__(
        self, told: Told, log: CorruptLog, pause_s: float, *, is_busy: bool = False
    ) -> None:
        self._member, self._log, self._is_busy = told.member, log, is_busy
        self._pause_s = pause_s
        self.read: dict[int, list[int]] = {0: [], 1: []}
        self.failed: Counter[int] = Counter()
        self._out: set[Partition] = set()

    def poll(self) -> None:
        """Poll once; of a partition that fails, again."""
        try:
            self._poll()
            if self._is_busy:
                self._member.pause(self._member.assigned())
                self._poll()
                self._member.resume(self._member.assigned() - self._out)
        except PartitionsFailed as error:
            self.failed.update(number for _, number in error.partitions)
            self._member.pause(error.partitions)
            self._out |= error.partitions
            until_s = monotonic_s() + self._pause_s
            while monotonic_s() < until_s:
                self.poll()
            self._out -= error.partitions
            self._member.resume(error.partitions)

    def _poll(self) -> None:
        for one in self._member.poll(POLL_S, max_records=MOST):
            assert one.value == self._log.value(one.offset)
            self.read[one.partition].append(one.offset)


def cases(hows: Iterable[str], *soon: tuple[str, str, str]) -> list[Any]:
    """Return all cases of logs, corruptions and places; those that are not named are long."""
    every = product(("plain", "transactions"), hows, WHERE)
    return [
        pytest.param(*one, marks=[] if one in soon else [pytest.mark.long], id="-".join(one))
        for one in every
    ]


def read_past(
    log: CorruptLog, settings: KafkaSection, how: str, where: str, *, is_busy: bool = False
) -> None:
    """Let a member meet a corrupt batch, and read on once it is whole again."""
    whole, number = log.offsets, WHERE[where]
    with closing(Told(settings, log.topic)) as told:
        polls = Polls(told, log, PAUSES_S[settings.client], is_busy=is_busy)

        def is_named() -> bool:
            polls.poll()
            return polls.failed[0] >= 2 and polls.read[1] == whole

        with log.corrupt(number, HOW[how]):
            eventually(is_named, timeout_s=LIMIT_S)
            assert polls.read == {0: whole[:number], 1: whole}
            assert polls.failed.keys() == {0}

        def is_all() -> bool:
            polls.poll()
            return len(polls.read[0]) >= COUNT

        eventually(is_all, timeout_s=LIMIT_S)
        for _ in range(10):
            polls.poll()
    assert polls.read == {0: whole, 1: whole}
