"""The gauge of open doubts: whose it is, and how it ages."""

from __future__ import annotations

import pytest

from consumer.journal import JournalUnavailable
from consumer.journal.doubts import DoubtCount
from consumer.ops.health.doubts import DoubtReading, DoubtWatch, OpenDoubts, seen
from feedback.clock import monotonic_s

READING = DoubtReading([DoubtCount("pay", 3, 90_000)], asked_s=100.0)


class Rows:
    """Answers in turn, and keeps no answer back."""

    def __init__(self, *answers: list[DoubtCount] | None) -> None:
        self._answers = list(answers)

    def doubts(self, every_ms: int) -> list[DoubtCount] | None:
        if not self._answers:
            raise JournalUnavailable("the statement took too long")
        return self._answers.pop(0)


def test_the_oldest_doubt_grows_older_after_it_was_counted() -> None:
    assert seen(READING, (), now_s=110.0, kept_s=30.0) == [OpenDoubts("pay", 3, 100.0)]


def test_a_topic_without_a_doubt_is_shown_with_none() -> None:
    found = seen(READING, ("book", "pay"), now_s=100.0, kept_s=30.0)
    assert [(one.topic, one.requests) for one in found] == [("book", 0), ("pay", 3)]


def test_a_count_that_another_worker_has_renewed_is_dropped() -> None:
    assert seen(READING, ("pay",), now_s=131.0, kept_s=30.0) == []
    assert seen(None, ("pay",), now_s=1.0, kept_s=30.0) == []


def test_a_turn_of_another_worker_and_a_failure_leave_the_last_count() -> None:
    watch = DoubtWatch(Rows([DoubtCount("pay", 1, 0)], None), ("pay",), lease_s=5.0)
    assert watch.seen(monotonic_s()) == []
    watch.sweep()
    watch.sweep()
    with pytest.raises(JournalUnavailable):
        watch.sweep()
    (found,) = watch.seen(monotonic_s())
    assert (found.topic, found.requests) == ("pay", 1)
