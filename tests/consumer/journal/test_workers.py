"""The leases of a group, and the claims of one worker, on both databases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from consumer.journal import Work
from consumer.journal.workers import Workers
from tests.consumer.journal.conftest import Database, OpenJournal, OpenLeases
from tests.consumer.journal.samples import claim, finish, new_id


@pytest.fixture
def workers(database: Database, group: str) -> Iterator[Workers]:
    """Yield the workers of one group."""
    found = Workers(database.url, group=group)
    yield found
    found.close()


def test_leases_are_listed_those_that_end_last_first(
    workers: Workers, open_leases: OpenLeases
) -> None:
    open_leases("long").register(3600)
    open_leases("over").register(0)
    first, second = workers.registered(10)
    assert (first.worker_id, second.worker_id) == ("long", "over")
    assert second.lease_left_ms <= 0 < first.lease_left_ms <= 3_600_000
    assert [one.worker_id for one in workers.registered(1)] == ["long"]


def test_claims_of_a_worker_are_counted_by_topic_and_no_further_than_asked(
    workers: Workers, open_journal: OpenJournal
) -> None:
    mine, another = open_journal("mine"), open_journal("another")
    names = [new_id() for _ in range(3)]
    mine.apply(Work(claims=[claim(name) for name in names]))
    mine.apply(Work(finishes=[finish(names[0])]))
    another.apply(Work(claims=[claim(new_id())]))
    (found,) = workers.claims_of("mine", 10)
    assert (found.topic, found.requests) == ("payments", 2)
    assert 0 <= found.oldest_ms < 600_000
    (few,) = workers.claims_of("mine", 1)
    assert few.requests == 1
    assert workers.claims_of("nobody", 10) == []
