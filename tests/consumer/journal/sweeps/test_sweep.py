"""Leases, and what peers do with the claims of the dead."""

from __future__ import annotations

from consumer.journal import WORKER_DIED, EffectMark, Journal, JournalState, Published, Work
from tests.consumer.journal.conftest import Database, OpenJournal, OpenLeases
from tests.consumer.journal.samples import claim, finish, new_id, park_dead


def test_a_lease_is_counted_by_the_databases_clock(
    open_leases: OpenLeases, database: Database
) -> None:
    leases = open_leases("me")
    begun = leases.register(5)
    renewed = leases.renew(7.5)
    assert renewed is not None
    assert begun.lease_until - begun.now == 5000
    assert renewed.lease_until - renewed.now == 7500
    assert renewed.now >= begun.now
    (row,) = database.query("SELECT * FROM onceward_worker")
    assert (row["worker_id"], row["lease_until"]) == ("me", renewed.lease_until)
    assert row["started_at"] == begun.now


def test_a_lease_that_is_gone_is_not_renewed_but_can_be_taken_up_again(
    open_leases: OpenLeases,
) -> None:
    leases = open_leases("me")
    assert leases.renew(5) is None
    leases.register(5)
    leases.release()
    assert leases.renew(5) is None
    leases.register(5)
    assert leases.renew(5) is not None


def test_registering_again_keeps_the_time_of_the_start(
    open_leases: OpenLeases, database: Database
) -> None:
    leases = open_leases("me")
    leases.register(0)
    database.change("UPDATE onceward_worker SET started_at = 5")
    leases.register(5)
    assert database.query("SELECT started_at FROM onceward_worker") == [{"started_at": 5}]


def test_claims_of_a_live_worker_are_left_alone(
    journal: Journal, open_journal: OpenJournal, open_leases: OpenLeases
) -> None:
    open_leases("me").register(60)
    journal.apply(Work(claims=[claim(new_id())]))
    assert park_dead(open_journal("peer"), 10) == []


def test_claims_of_a_worker_whose_lease_is_over_are_put_in_doubt(
    journal: Journal, open_journal: OpenJournal, open_leases: OpenLeases, database: Database
) -> None:
    open_leases("me").register(0)
    entered, waiting, ended = new_id(), new_id(), new_id()
    journal.apply(Work(claims=[claim(entered), claim(waiting), claim(ended)]))
    journal.apply(Work(effects=[EffectMark(entered, 1)], finishes=[finish(ended)]))
    rows = {row.request_id: row for row in park_dead(open_journal("peer"), 10)}
    assert set(rows) == {entered, waiting}
    assert {(row.state, row.code, row.owner, row.generation) for row in rows.values()} == {
        (JournalState.IN_DOUBT, WORKER_DIED, "me", 1)
    }
    assert rows[entered].effect_at is not None and rows[waiting].effect_at is None
    assert all(row.finished_at is not None for row in rows.values())
    assert park_dead(open_journal("peer"), 10) == []
    assert database.query("SELECT * FROM onceward_run") == []


def test_a_worker_without_a_row_counts_as_dead_and_a_sweep_takes_no_more_than_it_may(
    journal: Journal,
) -> None:
    journal.apply(Work(claims=[claim(new_id()) for _ in range(5)]))
    assert [len(park_dead(journal, 2)) for _ in range(4)] == [2, 2, 1, 0]


def test_a_released_worker_leaves_its_claims_to_the_sweep_at_once(
    journal: Journal, open_leases: OpenLeases
) -> None:
    leases = open_leases("me")
    leases.register(60)
    journal.apply(Work(claims=[claim(new_id())]))
    assert park_dead(journal, 10) == []
    leases.release()
    assert len(park_dead(journal, 10)) == 1


def test_what_was_swept_is_to_be_told_until_it_is(journal: Journal) -> None:
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    park_dead(journal, 10)
    assert [row.state for row in journal.unpublished(10, 0)] == [JournalState.IN_DOUBT]
    journal.apply(Work(published=[Published(name, 1, JournalState.IN_DOUBT)]))
    assert journal.unpublished(10, 0) == []


def test_a_sweep_sees_its_own_group_only(journal: Journal, open_journal: OpenJournal) -> None:
    journal.apply(Work(claims=[claim(new_id())]))
    assert park_dead(open_journal("peer", group="another"), 10) == []
