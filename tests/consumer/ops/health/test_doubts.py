"""The gauge of open doubts: whose it is, and how it ages."""

from __future__ import annotations

import pytest

from consumer.journal import Journal, JournalState, JournalUnavailable, Work
from consumer.journal.doubts import DoubtCount
from consumer.ops.health.doubts import DoubtReading, DoubtWatch, OpenDoubts, doubts_now
from consumer.ops.health.gauges import Gauges
from feedback.clock import monotonic_s
from tests.consumer.journal.samples import claim, finish, new_id
from tests.consumer.ops.health.samples import vitals
from tests.kit.databases import migrated

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
    assert doubts_now(READING, (), now_s=110.0, kept_s=30.0) == [OpenDoubts("pay", 3, 100.0)]


def test_a_topic_without_a_doubt_is_shown_with_none() -> None:
    found = doubts_now(READING, ("book", "pay"), now_s=100.0, kept_s=30.0)
    assert [(one.topic, one.requests) for one in found] == [("book", 0), ("pay", 3)]


def test_a_count_that_another_worker_has_renewed_is_dropped() -> None:
    assert doubts_now(READING, ("pay",), now_s=131.0, kept_s=30.0) == []
    assert doubts_now(None, ("pay",), now_s=1.0, kept_s=30.0) == []


def test_a_turn_of_another_worker_and_a_failure_leave_the_last_count() -> None:
    watch = DoubtWatch(Rows([DoubtCount("pay", 1, 0)], None), ("pay",), lease_s=5.0)
    assert watch.seen(monotonic_s()) == []
    watch.sweep()
    watch.sweep()
    with pytest.raises(JournalUnavailable):
        watch.sweep()
    (found,) = watch.seen(monotonic_s())
    assert (found.topic, found.requests) == ("pay", 1)


class ImpatientRows:
    """A worker's journal whose turn it always is."""

    def __init__(self, url: str, worker_id: str) -> None:
        self.journal = Journal(url, group="pay", worker_id=worker_id)

    def doubts(self, every_ms: int) -> list[DoubtCount] | None:
        return self.journal.doubts(0)


def test_two_workers_may_show_one_doubt_so_the_max_counts_and_not_the_sum(sqlite_url: str) -> None:
    migrated(sqlite_url)
    rows = [ImpatientRows(sqlite_url, name) for name in ("one", "another")]
    name = new_id()
    rows[0].journal.apply(Work(claims=[claim(name)]))
    rows[0].journal.apply(
        Work(finishes=[finish(name, state=JournalState.IN_DOUBT, code="WORKER_DIED")])
    )
    watches = [DoubtWatch(one, (), lease_s=5.0) for one in rows]
    for watch in watches:
        watch.sweep()
    counts = [one.requests for watch in watches for one in watch.seen(monotonic_s())]
    assert (max(counts), sum(counts)) == (1, 2)
    found = (OpenDoubts("pay", 1, 5.0),)
    gauges = Gauges(
        look=lambda: vitals(doubts=found), oldest=lambda: None, lateness=dict, stalled=dict
    )
    said = {metric.name: metric.documentation for metric in gauges.collect()}
    for gauge in ("onceward_doubts_open", "onceward_doubts_oldest_seconds"):
        assert said[gauge].endswith("Take the max over workers, not the sum.")
