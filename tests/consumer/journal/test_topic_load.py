"""The load of each topic: what runs, and what waits for its next run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from consumer.journal import Journal, JournalState, Work, topic_load
from consumer.journal.tables import CLAIMED, RETRYING
from consumer.journal.topic_load import LoadsFound, TopicLoad, TopicLoads
from tests.consumer.journal.conftest import Database, OpenJournal
from tests.consumer.journal.samples import claim, finish, index_of_open, new_id

SOON_MS, LATER_MS = 50_000, 90_000


def _waits(journal: Journal, delay_ms: int) -> None:
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    journal.apply(
        Work(finishes=[finish(name, 1, JournalState.RETRYING, code="BUSY", delay_ms=delay_ms)])
    )


def test_claims_and_retries_of_the_group_are_counted_and_nothing_that_has_ended(
    journal: Journal,
    open_journal: OpenJournal,
    database: Database,
    group: str,
    now_ms_of: Callable[[Database], int],
) -> None:
    with closing(TopicLoads(database.url, group=group)) as loads:
        assert loads.find() == LoadsFound({}, is_whole=True)
        ended = new_id()
        journal.apply(Work(claims=[claim(one) for one in (ended, new_id(), new_id())]))
        journal.apply(Work(finishes=[finish(ended)]))
        open_journal(group=f"{group}-other").apply(Work(claims=[claim(new_id())]))
        assert loads.find().by_topic == {"payments": TopicLoad(2, 0, None)}
        began_ms = now_ms_of(database)
        for delay_ms in (LATER_MS, SOON_MS):
            _waits(journal, delay_ms)
        (load,) = loads.find().by_topic.values()
        assert (load.claimed, load.retrying) == (2, 2)
        assert load.next_due_at is not None
        assert began_ms <= load.next_due_at - SOON_MS <= now_ms_of(database)


def test_so_many_are_counted_and_it_is_said_that_there_are_more(
    journal: Journal, database: Database, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_load, "MOST_ROWS", 2)
    for delay_ms in (LATER_MS, SOON_MS, LATER_MS):
        _waits(journal, delay_ms)
    with closing(TopicLoads(database.url, group=group)) as loads:
        found = loads.find()
    (load,) = found.by_topic.values()
    assert (load.retrying, found.is_whole) == (2, False)
    # The first that is due is among them.
    due = [one["due_at"] for one in database.query("SELECT due_at FROM onceward_request")]
    assert load.next_due_at == min(due)


@pytest.mark.parametrize(("condition", "index"), [(CLAIMED, "claimed"), (RETRYING, "retrying")])
def test_each_count_is_by_its_index(
    journal: Journal, database: Database, condition: str, index: str
) -> None:
    journal.apply(Work(claims=[claim(new_id())]))
    dialect = database.engine.dialect.name
    plan = database.plan(topic_load._count(dialect, condition), this_group="g", most=5)
    assert index_of_open(index, dialect) in plan
