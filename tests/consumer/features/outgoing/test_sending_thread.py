"""What is taken over is written in its order until it is, and what is too much is dropped."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from consumer.features.outgoing.sending_thread import BATCH, SendingThread
from tests.eventually import HANG_S, eventually


class Kafka:
    """Takes items, but for those that it refuses for now."""

    def __init__(self) -> None:
        self.has: list[int] = []
        self.batches: list[int] = []
        self.away: set[int] = set()
        self.is_closed = False
        self.free = threading.Event()
        self.free.set()

    def write(self, batch: Sequence[int]) -> list[int]:
        self.free.wait(60)
        self.batches.append(len(batch))
        left = [one for one in batch if one in self.away]
        self.has += [one for one in batch if one not in self.away]
        return left

    def close(self) -> None:
        self.is_closed = True


@contextmanager
def sending(
    kafka: Kafka, limit: int | None = None, *, is_ordered: bool = True
) -> Iterator[SendingThread[int]]:
    made = SendingThread[int](
        "test",
        write=kafka.write,
        close=kafka.close,
        gather_s=0.01,
        limit=limit,
        is_ordered=is_ordered,
    )
    made.start()
    try:
        yield made
    finally:
        kafka.free.set()
        made.stop(HANG_S)


def test_all_is_written_in_its_order_and_together() -> None:
    kafka = Kafka()
    with sending(kafka) as made:
        made.send(range(3 * BATCH))
        eventually(lambda: len(kafka.has) == 3 * BATCH, timeout_s=30)
    assert kafka.has == list(range(3 * BATCH))
    assert kafka.batches == [BATCH] * 3
    assert kafka.is_closed


def test_what_is_not_taken_is_tried_again_before_what_came_later() -> None:
    kafka = Kafka()
    kafka.away = {1, 2}
    with sending(kafka) as made:
        made.send([0, 1, 2])
        eventually(lambda: kafka.has == [0], timeout_s=30)
        kafka.free.clear()  # no try in between, where half of them are away
        made.send([3])
        kafka.away.clear()
        kafka.free.set()
        eventually(lambda: len(kafka.has) == 4, timeout_s=30)
    assert kafka.has == [0, 1, 2, 3]


def test_a_stop_writes_what_waits() -> None:
    kafka = Kafka()
    with sending(kafka) as made:
        made.send(range(10))
    assert kafka.has == list(range(10))


def test_a_stop_does_not_wait_for_a_kafka_that_is_away() -> None:
    kafka = Kafka()
    kafka.away = {*range(10)}
    with sending(kafka) as made:
        made.send(range(10))
        eventually(lambda: kafka.batches, timeout_s=30)
    assert kafka.has == []
    assert kafka.is_closed


def test_with_a_limit_the_oldest_are_dropped_also_of_what_comes_back() -> None:
    kafka = Kafka()
    kafka.free.clear()
    kafka.away = {*range(4)}
    with sending(kafka, limit=4) as made:
        made.send(range(4))
        eventually(lambda: len(made) == 0, timeout_s=30, what="they are being written")
        made.send([4, 5, 6])
        kafka.free.set()
        eventually(lambda: len(made) == 4, timeout_s=30, what="one of them has room")
        kafka.away.clear()
        eventually(lambda: len(kafka.has) == 4, timeout_s=30)
    assert kafka.has == [3, 4, 5, 6]


def test_without_an_order_what_is_not_taken_is_tried_again_behind_what_came_later() -> None:
    kafka = Kafka()
    kafka.away = {*range(BATCH)}
    with sending(kafka, is_ordered=False) as made:
        made.send(range(BATCH + 1))
        eventually(lambda: kafka.has == [BATCH], timeout_s=30)
        kafka.away.clear()
        eventually(lambda: len(kafka.has) == BATCH + 1, timeout_s=30)
    assert sorted(kafka.has) == list(range(BATCH + 1))
