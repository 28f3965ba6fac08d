"""Open doubts, counted on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import event

from consumer.journal import Journal, JournalState, Work
from consumer.journal.doubts import Doubts, UnsweptClaims, _unswept
from tests.consumer.journal.conftest import Database, OpenJournal, OpenLeases
from tests.consumer.journal.samples import claim, finish, index_of_open, new_id

OFTEN_MS, SELDOM_MS = 0, 3_600_000


def _in_doubt(journal: Journal) -> str:
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    journal.apply(Work(finishes=[finish(name, state=JournalState.IN_DOUBT, code="WORKER_DIED")]))
    return name


def test_open_doubts_are_counted_by_topic_and_decided_ones_are_not(
    journal: Journal, open_journal: OpenJournal, database: Database
) -> None:
    first, second, other = (_in_doubt(journal) for _ in range(3))
    _in_doubt(open_journal(group="another"))
    journal.apply(Work(claims=[claim(new_id())]))
    database.change(
        "UPDATE onceward_request SET finished_at = finished_at - 60000 WHERE request_id = :name",
        name=first,
    )
    database.change(
        "UPDATE onceward_request SET topic = 'refunds' WHERE request_id = :name", name=other
    )
    payments, refunds = journal.doubts(OFTEN_MS) or []
    assert (payments.topic, payments.requests) == ("payments", 2)
    assert (refunds.topic, refunds.requests) == ("refunds", 1)
    assert refunds.oldest_ms < 60_000 <= payments.oldest_ms

    journal.apply(Work(finishes=[finish(first), finish(other)]))
    (left,) = journal.doubts(OFTEN_MS) or []
    assert (left.topic, left.requests) == ("payments", 1)
    assert left.oldest_ms < 60_000
    journal.apply(Work(finishes=[finish(second)]))
    assert journal.doubts(OFTEN_MS) == []


def test_one_of_all_workers_counts_at_a_time(open_journal: OpenJournal) -> None:
    one, another = open_journal("one"), open_journal("another")
    assert one.doubts(SELDOM_MS) == []
    assert another.doubts(SELDOM_MS) is None


def test_all_open_doubts_of_the_group_are_read_page_by_page(
    journal: Journal, database: Database, group: str
) -> None:
    names = [_in_doubt(journal) for _ in range(5)]
    for name in names[:3]:  # three of one moment
        database.change(
            "UPDATE onceward_request SET finished_at = 7 WHERE request_id = :name", name=name
        )
    journal.apply(Work(claims=[claim(new_id())]))
    with Doubts(database.url, group=group) as doubts:
        for page_rows in (1, 2, 5, 100):
            found = [one.request_id for page in doubts.pages(page_rows=page_rows) for one in page]
            assert found == names, page_rows
        assert doubts.count() == 5
        count, newest = doubts.newest(3)
        assert count == 5
        # The last two, and one of the three of that moment.
        assert [one.request_id for one in newest] == [names[4], names[3], max(names[:3])]
    with Doubts(database.url, group="another") as others:
        assert list(others.pages()) == [] and others.count() == 0
        assert others.newest(3) == (0, [])


@pytest.mark.parametrize("journal_url", ["postgres"], indirect=True)
def test_a_page_of_doubts_and_the_newest_read_few_others_without_any_statistics(
    database: Database, group: str
) -> None:
    database.change(_MANY, this_group=group)
    read: list[float] = []

    def note(c: object, cursor: Any, statement: str, parameters: Any, *rest: object) -> None:
        if "LIMIT" in statement and "onceward_open_request" in statement:
            cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", parameters)
            ((plans,),) = cursor.fetchall()
            read.append(max(_rows_of(plans[0]["Plan"])))

    with Doubts(database.url, group=group) as doubts:
        event.listen(doubts._session._engine, "before_cursor_execute", note)
        pages = doubts.pages(page_rows=100)
        found = [one.request_id for page in pages for one in page]
        assert len(set(found)) == len(found) == 3000
        assert len(read) == 31  # the last page has none
        count, newest = doubts.newest(100)
    assert (count, len(newest), newest[0].request_id) == (3000, 100, "r3000")
    # Of each of three topics.
    assert len(read) == 34 and max(read) < 200


def _rows_of(plan: dict[str, Any]) -> Iterator[float]:
    yield plan["Actual Rows"] * plan["Actual Loops"] + plan.get("Rows Removed by Filter", 0)
    for one in plan.get("Plans", ()):
        yield from _rows_of(one)


_MANY = (
    'INSERT INTO onceward_request ("group", request_id, topic, partition, "offset", '
    "payload_sha256, attempt, generation, deadline_at, state, owner, claimed_at, finished_at, "
    "published_at) SELECT :this_group, 'r' || i, 'pay-' || i % 3, 0, i, 'x', 1, 1, 4102444800000, "
    "'IN_DOUBT', 'w', i, i, i FROM generate_series(1, 3000) AS i"
)


def test_claims_of_dead_workers_in_their_effect_are_counted_before_a_sweep(
    open_journal: OpenJournal, open_leases: OpenLeases, database: Database, group: str
) -> None:
    owners = ("dead", "dead", "gone", "living", "before-its-effect")
    names = [new_id() for _ in owners]
    for name, owner in zip(names, owners, strict=True):
        open_journal(owner).apply(Work(claims=[claim(name)]))
    open_journal("dead", group="another").apply(
        Work(claims=[claim(new_id(), effect_kind="external")])
    )
    open_leases("living").register(3600)
    open_leases("dead").register(0)
    with Doubts(database.url, group=group) as doubts:
        assert doubts.unswept().claims == []
        for at, name in enumerate(names[:-1]):
            database.change(
                "UPDATE onceward_request SET effect_at = :at WHERE request_id = :name",
                at=100 + at,
                name=name,
            )
        found = doubts.unswept()
    assert found.claims == [UnsweptClaims("dead", 2, 100), UnsweptClaims("gone", 1, 102)]
    assert found.living == 1


def test_unswept_claims_are_found_by_the_index_of_the_claims(
    journal: Journal, database: Database
) -> None:
    journal.apply(Work(claims=[claim(new_id(), effect_kind="external")]))
    dialect = database.engine.dialect.name
    plan = database.plan(_unswept(dialect), this_group="g")
    assert index_of_open("claimed", dialect) in plan
