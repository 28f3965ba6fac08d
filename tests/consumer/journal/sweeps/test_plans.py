"""The queries of the sweeps keep to their indexes on SQLite, whatever statistics it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import event

from consumer.journal import Journal
from consumer.journal.doubts import Doubts
from consumer.journal.group_journal import GroupJournal
from consumer.journal.owed_rows import DeadLetterRows, OutcomeRows
from consumer.journal.topic_load import TopicLoads
from consumer.journal.waiting import OwedCursor
from consumer.journal.workers import Workers
from tests.consumer.journal.conftest import Database

GROUP = "g"
# Most requests of the group have this state; there are many groups, whose requests have all ended.
SKEWS = {
    "ended": "'SUCCEEDED'",
    "claimed": "'CLAIMED'",
    "retrying": "'RETRYING'",
    "in doubt": "'IN_DOUBT'",
    "failed": "'FAILED'",
    "a few of each": "CASE i % 1000 WHEN 1 THEN 'CLAIMED' WHEN 2 THEN 'RETRYING' "
    "WHEN 3 THEN 'IN_DOUBT' ELSE 'SUCCEEDED' END",
}
_FILL = (
    "WITH RECURSIVE numbers(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < {count}) "
    'INSERT INTO onceward_request ("group", request_id, topic, partition, "offset", '
    "payload_sha256, attempt, generation, deadline_at, state, owner, claimed_at, finished_at, "
    "published_at) SELECT {group}, 'r' || i, 'payments', 0, i, 'x', 1, 1, 4102444800000, {state}, "
    "'w' || (i % 3), i, i, i FROM numbers"
)

Ask = Callable[[Any], object]
SWEPT: dict[str, tuple[type[GroupJournal], Ask]] = {
    "dead claims": (Journal, lambda one: one.dead_claims(["payments"], 9)),
    "unhandled": (Journal, lambda one: one.unhandled(["mails"], 9, 1000)),
    "own claims": (Journal, lambda one: one.own_claims()),
    "unpublished": (Journal, lambda one: one.unpublished(9, 1000)),
    "overdue retries": (Journal, lambda one: one.overdue_retries(["payments"], 9, 1000)),
    "count of doubts": (Journal, lambda one: one.doubts(0)),
    "pages of doubts": (Doubts, lambda one: [*one.pages()]),
    "newest doubts": (Doubts, lambda one: one.newest(100)),
    "unswept": (Doubts, lambda one: one.unswept()),
    "claims of a worker": (Workers, lambda one: one.claims_of("w1", 9)),
    "topics": (TopicLoads, lambda one: one.find()),
    "letters": (DeadLetterRows, lambda one: (one.waiting(), *_pages(one))),
    "outcomes": (OutcomeRows, lambda one: (one.waiting(), *_pages(one))),
}


def _pages(one: Any) -> Iterator[object]:
    for of_the_dead in (False, True):
        yield one.page(OwedCursor(0, ""), topics=["payments"], limit=9, of_the_dead=of_the_dead)


@pytest.fixture
def journal_url(sqlite_url: str) -> str:
    """Return the journal of which this is about: PostgreSQL has open requests in a table."""
    return sqlite_url


def plans(database: Database, url: str, kind: type[GroupJournal], ask: Ask) -> Iterator[str]:
    """Yield how each query of the requests is carried out now."""
    worker: Any = {"worker_id": "me"} if kind in (Journal, DeadLetterRows, OutcomeRows) else {}
    asked, found = kind(url, group=GROUP, **worker), []

    def note(c: object, cursor: object, statement: str, parameters: Any, *rest: object) -> None:
        if "FROM onceward_request" in statement:
            found.append((statement, parameters))

    event.listen(asked._session._engine, "before_cursor_execute", note)
    ask(asked)
    asked.close()
    with database.engine.connect() as connection:
        for statement, parameters in found:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
            yield from (row[3] for row in plan if "onceward_request" in row[3])


@pytest.mark.parametrize("skew", SKEWS.values(), ids=SKEWS.keys())
def test_each_sweep_reads_its_partial_index_before_and_after_analyze(
    database: Database, journal_url: str, skew: str
) -> None:
    database.change(_FILL.format(count=2000, group=f"'{GROUP}'", state=skew))
    database.change(_FILL.format(count=700, group="'other-' || i", state="'SUCCEEDED'"))
    for is_analyzed in (False, True):
        if is_analyzed:
            database.change("ANALYZE")
        for name, (kind, ask) in SWEPT.items():
            read = [*plans(database, journal_url, kind, ask)]
            assert read, name
            wrong = [one for one in read if "USING INDEX onceward_request_" not in one]
            wrong += [one for one in read if "_deadline" in one or "_window" in one]
            assert not wrong, (name, is_analyzed)
