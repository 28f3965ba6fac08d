"""Which partitions are silent, by librdkafka's statistics."""

from __future__ import annotations

from feedback.kafka.confluent.silent_partitions import AGAIN, LONG, SilentPartitions
from feedback.kafka.values import Partition

ONE, OTHER = ("t", 0), ("t", 1)


class Statistics:
    """Statistics of one partition, one after the other."""

    def __init__(self) -> None:
        self._silent = SilentPartitions()

    def named(
        self, offset: int, *, position: int = 5, times: int = 1, is_paused: bool = False
    ) -> int:
        """Return how often it was named."""
        fetched: set[Partition] = set() if is_paused else {ONE}
        found = [self._silent.hear({ONE: offset}, {ONE: position}, fetched) for _ in range(times)]
        return found.count([ONE])

    def forget(self) -> None:
        """Let it be read to its end."""
        assert self._silent.hear({}, {}, set()) == []


def test_it_is_named_when_nothing_has_come_for_long_and_then_soon() -> None:
    one = Statistics()
    assert one.named(5, times=LONG) == 0
    assert one.named(5) == 1
    assert one.named(5, times=AGAIN - 1) == 0
    assert one.named(5) == 1


def test_one_that_is_read_on_is_not() -> None:
    one = Statistics()
    assert one.named(5, times=LONG) == 0
    # A record was handed out.
    assert one.named(6, position=6, times=LONG) == 0
    # Offsets without a record were passed.
    assert one.named(7, position=6, times=LONG) == 0
    one.forget()
    assert one.named(7, position=6, times=LONG) == 0


def test_pauses_count_for_nothing_and_wipe_nothing() -> None:
    one = Statistics()
    assert one.named(5) == 0
    for _ in range(LONG - 1):
        assert one.named(5) == one.named(5, is_paused=True, times=3) == 0
    assert one.named(5) == 1


def test_a_mark_of_a_transaction_that_is_passed_again_behind_each_pause_wipes_nothing() -> None:
    one = Statistics()
    assert one.named(6) == 0
    assert sum(one.named(offset) for _ in range(LONG) for offset in (5, 6)) > 0


def test_a_log_that_was_made_anew_is_judged_by_its_own_offsets() -> None:
    one = Statistics()
    assert one.named(15, position=15, times=LONG) == 0
    assert one.named(3, position=3, times=LONG) == 0
    assert one.named(3, position=3) == 1


def test_each_has_a_time_of_its_own() -> None:
    silent = SilentPartitions()
    positions = {ONE: 5, OTHER: 5}
    for _ in range(LONG):
        assert silent.hear({ONE: 5}, positions, {ONE}) == []
    assert silent.hear({ONE: 5, OTHER: 5}, positions, {ONE, OTHER}) == [ONE]
