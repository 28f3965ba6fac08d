"""A search for a person, on both databases: bounded looks that together miss nothing."""

import time
from collections.abc import Iterator

import pytest

from consumer.journal import Journal, JournalState, Work
from consumer.journal.records import Row
from consumer.journal.searching import JournalSearch, RequestQuery
from tests.consumer.journal.conftest import Database
from tests.consumer.journal.samples import claim, finish

HOUR_MS = 3_600_000


@pytest.fixture
def search(database: Database, group: str) -> Iterator[JournalSearch]:
    made = JournalSearch(database.url, group=group)
    yield made
    made.close()


def all_of(search: JournalSearch, query: RequestQuery, *, most: int, looks_at: int) -> list[Row]:
    """Return the rows of all looks, one behind the other."""
    rows: list[Row] = []
    behind = None
    while True:
        found = search.requests(query, most=most, behind=behind, looks_at=looks_at)
        assert len(found.rows) <= most
        rows += found.rows
        if found.behind is None:
            return rows
        assert behind is None or found.behind < behind
        behind = found.behind


@pytest.mark.parametrize(("most", "looks_at"), [(3, 4), (2, 7), (100, 5), (100, 1000)])
def test_looks_go_on_where_the_last_one_stopped_and_find_each_row_once(
    journal: Journal, search: JournalSearch, most: int, looks_at: int
) -> None:
    due = time.time_ns() // 1_000_000 + HOUR_MS
    # Some have the same deadline to the millisecond.
    names = [f"r{number:02}" for number in range(17)]
    claims = [
        claim(name, key=b"even" if number % 2 == 0 else None, deadline_at=due + number // 3)
        for number, name in enumerate(names)
    ]
    journal.apply(Work(claims=claims))
    failed = finish("r04", state=JournalState.FAILED, code="BANK")
    journal.apply(Work(finishes=[failed]))

    def found(query: RequestQuery) -> list[str]:
        rows = all_of(search, query, most=most, looks_at=looks_at)
        assert [one.deadline_at for one in rows] == sorted(
            (one.deadline_at for one in rows), reverse=True
        )
        return sorted(one.request_id for one in rows)

    assert found(RequestQuery()) == names
    assert found(RequestQuery(request_id="r1")) == names[10:]
    assert found(RequestQuery(key="even")) == names[::2]
    assert found(RequestQuery(state="FAILED", code="BANK")) == ["r04"]
    assert found(RequestQuery(state="CLAIMED", code="BANK")) == []
    assert found(RequestQuery(topic="nowhere")) == []
    now_ms = time.time_ns() // 1_000_000
    assert found(RequestQuery(since=now_ms - HOUR_MS, until=now_ms + HOUR_MS)) == names
    assert found(RequestQuery(since=now_ms + HOUR_MS)) == []


def test_another_group_is_not_seen(journal: Journal, database: Database) -> None:
    journal.apply(Work(claims=[claim("mine")]))
    other = JournalSearch(database.url, group="another")
    assert other.requests(RequestQuery(), most=10).rows == []
    assert other.actions(most=10) == ([], None)
    other.close()
