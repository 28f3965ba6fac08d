"""What is forgotten, and what never is."""

from __future__ import annotations

import pytest

from consumer.journal import Journal, Pruned, State
from tests.consumer.journal.conftest import Database, OpenJournal, OpenLeases
from tests.consumer.journal.samples import PAST, claim, finish, new_id

DAY_MS = 86_400_000


def age(database: Database, column: str, **where: str) -> None:
    database.change(
        f'UPDATE onceward_request SET "{column}" = 1 WHERE request_id = :request_id', **where
    )


def ended(journal: Journal, database: Database, state: str = State.SUCCEEDED) -> str:
    """Return the id of a request whose deadline and end are long ago."""
    name = new_id()
    journal.apply(claims=[claim(name)])
    journal.apply(finishes=[finish(name, state=state, resend=state == State.FAILED)])
    age(database, "deadline_at", request_id=name)
    age(database, "finished_at", request_id=name)
    return name


def left(database: Database) -> set[str]:
    return {row["request_id"] for row in database.query("SELECT * FROM onceward_request")}


def test_what_ended_long_ago_is_forgotten_in_small_batches(
    journal: Journal, database: Database
) -> None:
    for _ in range(5):
        ended(journal, database)
    counts = [journal.prune(DAY_MS, 2).requests for _ in range(4)]
    assert counts == [2, 2, 1, 0]
    assert left(database) == set()


@pytest.mark.parametrize("young", ["deadline_at", "finished_at"])
def test_what_is_not_past_its_deadline_or_ended_lately_is_kept(
    journal: Journal, database: Database, young: str
) -> None:
    name = new_id()
    journal.apply(claims=[claim(name)])
    journal.apply(finishes=[finish(name)])
    old = "finished_at" if young == "deadline_at" else "deadline_at"
    age(database, old, request_id=name)
    assert journal.prune(DAY_MS, 10) == Pruned(0, 0, 0)
    assert left(database) == {name}


@pytest.mark.parametrize("state", [State.IN_DOUBT, State.RETRYING])
def test_what_did_not_end_is_kept_however_old(
    journal: Journal, database: Database, state: State
) -> None:
    claimed = new_id()
    journal.apply(claims=[claim(claimed)])
    age(database, "deadline_at", request_id=claimed)
    waiting = ended(journal, database, state)
    assert journal.prune(0, 10).requests == 0
    assert left(database) == {claimed, waiting}


def test_the_history_of_a_forgotten_request_goes_with_it_and_no_other(
    journal: Journal, database: Database
) -> None:
    for _ in range(2):
        name = new_id()
        journal.apply(claims=[claim(name)])
        journal.apply(finishes=[finish(name, state=State.FAILED, resend=True)])
        journal.apply(claims=[claim(name, attempt=2)])
        journal.apply(finishes=[finish(name, 2)])
    age(database, "deadline_at", request_id=name)
    age(database, "finished_at", request_id=name)
    assert journal.prune(DAY_MS, 10) == Pruned(1, 1, 0)
    assert len(database.query("SELECT * FROM onceward_run")) == 1


def test_a_request_that_expired_is_forgotten_like_any_other(
    journal: Journal, database: Database
) -> None:
    journal.apply(claims=[claim(new_id(), deadline_at=PAST)])
    assert journal.prune(DAY_MS, 10).requests == 0
    assert journal.prune(0, 10).requests == 1


def test_workers_that_are_long_gone_are_forgotten_and_others_are_not(
    journal: Journal, open_leases: OpenLeases, database: Database
) -> None:
    open_leases("live").register(60)
    open_leases("gone").register(0)
    assert journal.prune(0, 10).workers == 1
    assert [row["worker_id"] for row in database.query("SELECT * FROM onceward_worker")] == ["live"]


def test_another_groups_requests_are_kept(
    journal: Journal, open_journal: OpenJournal, database: Database
) -> None:
    name = ended(journal, database)
    assert open_journal(group="another").prune(0, 10).requests == 0
    assert left(database) == {name}
