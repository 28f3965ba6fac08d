"""A batch in hand while partitions come and go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from consumer.features.batches import batch_intake
from consumer.features.batches.batch_intake import BatchIntake
from feedback.kafka.memory.broker import MemoryBroker
from feedback.kafka.memory.engine import memory_broker
from feedback.kafka.source import KafkaSource
from feedback.records.envelope import Record
from feedback.settings.settings import KafkaSection
from tests.eventually import eventually

COUNT = 6
TOPIC = "t"


class Batches(BatchIntake):
    """Takes batches without statuses; a test says when the one in hand has ended.

    Attributes:
        read: the coordinates of all records, each time that they were taken.
        is_running: whether the batch is still being run.
    """

    def __init__(self) -> None:
        self.read: list[tuple[int, int]] = []
        self.is_running = False
        nothing: Any = SimpleNamespace(
            settings=None,
            worker_id="w",
            status_writer=None,
            buffer=SimpleNamespace(put=lambda _: None, wake=lambda: None, wait_for_room=None),
            may_take=lambda: True,
            wake=lambda: None,
            on_end=lambda _: None,
            gates=(),
            full=frozenset,
        )
        super().__init__(
            nothing,
            [SimpleNamespace(topic=TOPIC)],  # type: ignore[list-item]
            open_source=lambda: pytest.fail("no thread is started"),
            limit=COUNT,
            has_any=lambda _: self.is_running,
            end_s=1.0,
        )

    def _receive(self, records: Sequence[Record]) -> list[Any]:
        self.read += [(one.partition, one.offset) for one in records]
        self.is_running = True
        return [
            SimpleNamespace(record=one, request_id=str(one.offset), coordinates_id="")
            for one in records
        ]

    @contextmanager
    def _accepting(self, received: Sequence[Any]) -> Iterator[list[Any]]:
        yield [*received]

    def ends(self, source: KafkaSource) -> bool:
        """Take a turn; return whether the batch has ended, and its offsets are committed."""
        self._turn(source)
        return not self._batch and not self._due

    def turn(self, source: KafkaSource, *, to_have: int) -> None:
        """Take turns until so many records were taken."""

        def is_taken() -> bool:
            self._turn(source)
            return len(self.read) >= to_have

        eventually(is_taken)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryBroker]:
    """Yield a broker in memory."""
    monkeypatch.setattr(batch_intake, "POLL_S", 0.005)
    monkeypatch.setattr("consumer.intake.intake.POLL_S", 0.005)
    with memory_broker(longest_wait_s=0.02) as opened:
        yield opened


@pytest.fixture
def batches() -> Batches:
    """Return a reader of batches."""
    return Batches()


def join(batches: Batches, ours: KafkaSource, theirs: KafkaSource, count: int) -> None:
    """Let another member join, while the batch is in hand, and get so many partitions."""

    def is_joined() -> bool:
        theirs.poll(0.0, max_records=1)
        batches._turn(ours)
        return theirs.is_joined and ours.is_joined and len(theirs.assigned()) == count

    eventually(is_joined)


def test_a_batch_is_read_once_though_its_partition_went_and_came_back(
    broker: MemoryBroker, batches: Batches
) -> None:
    broker.make_topic(TOPIC, 1)
    for number in range(COUNT):
        broker.append(TOPIC, b"%d" % number)
    settings = KafkaSection(bootstrap_servers=broker.address, group="g")
    with closing(KafkaSource(settings, [TOPIC])) as ours:
        ours.unclaimed = batches.uncommitted
        batches.turn(ours, to_have=COUNT)
        with closing(KafkaSource(settings, [TOPIC])) as theirs:
            join(batches, ours, theirs, 0)
            assert ours.assigned() == [(TOPIC, 0)]
            batches.is_running = False
            broker.append(TOPIC, b"last")
            batches.turn(ours, to_have=COUNT + 1)
            assert batches.read == [(0, offset) for offset in range(COUNT + 1)]
            assert theirs.committed([(TOPIC, 0)]) == {(TOPIC, 0): COUNT}


def test_a_batch_moves_back_no_offset_of_the_next_owner(
    broker: MemoryBroker, batches: Batches
) -> None:
    broker.make_topic(TOPIC, 2)
    for number in range(COUNT):
        broker.append(TOPIC, b"%d" % number, partition=number % 2)
    settings = KafkaSection(bootstrap_servers=broker.address, group="g")
    with closing(KafkaSource(settings, [TOPIC])) as ours:
        ours.unclaimed = batches.uncommitted
        batches.turn(ours, to_have=COUNT)
        with closing(KafkaSource(settings, [TOPIC])) as theirs:
            join(batches, ours, theirs, 1)
            (moved,) = theirs.assigned()
            (stays,) = ours.assigned()
            theirs.commit({moved: COUNT + 3})
            batches.is_running = False
            eventually(lambda: batches.ends(ours))
            half = COUNT // 2
            assert theirs.committed([moved, stays]) == {moved: COUNT + 3, stays: half}
