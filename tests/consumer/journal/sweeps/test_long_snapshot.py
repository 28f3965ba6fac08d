"""While a long snapshot is open, a look reads what waits, and not all that ended since."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, Select, event, text

from consumer.journal import Journal, JournalState, Row, Work
from consumer.journal.owed_rows import _DEAD
from consumer.journal.pacing import EVER_MS
from consumer.journal.sweeps import dead_claims
from consumer.journal.sweeps.dead_claims import find_unhandled
from consumer.journal.sweeps.gone_owners import SETTLED_AFTER_S, GoneOwners
from consumer.journal.sweeps.retrying import FROM_THE_OLDEST, find_overdue
from consumer.journal.sweeps.sweep import unpublished
from consumer.journal.waiting import _count_waiting, _page
from feedback.clock import monotonic_s
from tests.consumer.journal.conftest import Database, OpenJournal, OpenLeases
from tests.consumer.journal.samples import FAR, claim, finish, new_id

ENDED = 6_000
SLICE_MS, AGE_MS = 10_000, 5_000
# Each request ended 100 ms before the next, and nobody has told of it but the first time.
_ENDED = """
INSERT INTO onceward_request ("group", request_id, topic, partition, "offset", payload_sha256,
    attempt, generation, deadline_at, state, owner, finished_at)
SELECT :group, 'told-' || n, 'payments', 0, n, '', 1, 1, 4102444800000, 'SUCCEEDED', 'me',
    CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint) - 100 * n
FROM generate_series(1, :count) AS n
"""
_CLAIMED = """
INSERT INTO onceward_request ("group", request_id, topic, partition, "offset", payload_sha256,
    attempt, generation, deadline_at, state, owner, claimed_at)
SELECT :group, 'run-' || n, 'payments', 0, n, '', 1, 1, 4102444800000, 'CLAIMED',
    'worker-' || n % 3, 1
FROM generate_series(1, :count) AS n
"""
# Each was due 100 ms before the next.
_RETRYING = """
INSERT INTO onceward_request ("group", request_id, topic, partition, "offset", payload_sha256,
    attempt, generation, deadline_at, state, owner, published_at, due_at)
SELECT :group, 'due-' || n, 'payments', 0, n, '', 1, 1, 4102444800000, 'RETRYING', 'me', 1,
    CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint) - 100 * n
FROM generate_series(1, :count) AS n
"""
Look = Callable[[Connection], object]


def _read(database: Database, look: Look, *, index: str) -> int:
    """Return how many pages of the database one look touches."""
    said: list[tuple[str, Any]] = []

    def note(_: object, __: object, statement: str, parameters: Any, *rest: object) -> None:
        said.append((statement, parameters))

    with database.engine.connect() as connection:
        connection.execute(text("SET enable_seqscan = off"))
        event.listen(connection, "before_cursor_execute", note)
        look(connection)
        event.remove(connection, "before_cursor_execute", note)
        plans = [
            connection.exec_driver_sql(
                f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", parameters
            ).scalar_one()[0]["Plan"]
            for statement, parameters in said
        ]
    assert index in str(plans)
    return sum(int(one["Shared Hit Blocks"]) + int(one["Shared Read Blocks"]) for one in plans)


@contextmanager
def _long_snapshot(database: Database) -> Iterator[None]:
    with database.engine.connect() as snapshot:
        snapshot.execution_options(isolation_level="REPEATABLE READ")
        snapshot.execute(text("SELECT count(*) FROM onceward_request")).all()
        yield


@pytest.mark.parametrize("journal_url", ["postgres"], indirect=True)
def test_a_slice_costs_what_it_holds_while_a_long_snapshot_is_open(
    journal: Journal, database: Database, group: str
) -> None:
    name = new_id()
    journal.apply(Work(claims=[claim(name)], finishes=[]))
    journal.apply(Work(finishes=[finish(name)]))
    database.change("UPDATE onceward_request SET finished_at = finished_at - 3600000")

    def look(within_ms: int) -> Look:
        return lambda connection: unpublished(connection, group, 500, AGE_MS, within_ms, (0, ""))

    with _long_snapshot(database):
        database.change(_ENDED, group=group, count=ENDED)
        database.change(
            "UPDATE onceward_request SET published_at = 1 WHERE finished_at > 0 "
            "AND request_id LIKE 'told-%'"
        )
        index = "onceward_open_untold"
        everything = _read(database, look(EVER_MS), index=index)
        slice_ = _read(database, look(AGE_MS + SLICE_MS), index=index)
        found = journal.unpublished(10, AGE_MS, within_ms=7_200_000)
    assert everything > ENDED / 50
    assert slice_ < everything / 10
    assert [row.request_id for row in found] == [name]


@pytest.mark.parametrize("journal_url", ["postgres"], indirect=True)
@pytest.mark.parametrize("dead", ["", "worker-", "worker-1a", "x"])
def test_what_living_workers_ended_is_not_read_for_the_claims_of_the_dead(
    journal: Journal, database: Database, open_leases: OpenLeases, group: str, dead: str
) -> None:
    for number in range(3):
        open_leases(f"worker-{number}").register(lease_s=1e6)
    topics = ["payments"]

    def look(connection: Connection) -> object:
        return dead_claims.find(
            connection, group, topics=topics, limit=500, worker_id="me", gone=GoneOwners()
        )

    def look_elsewhere(connection: Connection) -> object:
        return find_unhandled(
            connection, group, topics=["other"], limit=500, late_ms=0, worker_id="me"
        )

    with _long_snapshot(database):
        database.change(_CLAIMED, group=group, count=ENDED)
        database.change("UPDATE onceward_request SET state = 'SUCCEEDED', published_at = 1")
        name = new_id()
        journal.apply(Work(claims=[claim(name)]))
        database.change(
            "UPDATE onceward_request SET owner = :dead WHERE state = 'CLAIMED'", dead=dead
        )
        index = "onceward_open_claimed"
        read = [_read(database, one, index=index) for one in (look, look_elsewhere)]
        found = journal.dead_claims(topics, 10)
        left = journal.unhandled(["other"], 10, FAR)
    assert max(read) < ENDED / 50
    assert [row.request_id for row in found] == [name]
    assert [one.row.request_id for one in left] == [name]


@pytest.mark.parametrize("journal_url", ["postgres"], indirect=True)
def test_claims_of_the_dead_come_in_one_order_wherever_they_lie_between_the_living(
    journal: Journal, database: Database, open_leases: OpenLeases, group: str
) -> None:
    living = ["B-1", "a-2", "host_3", "worker-4"]
    dead = ["", "A", "a-1", "a-3", "C-1", "host-3", "worker", "worker-5", "Z", "z"]
    for one in living:
        open_leases(one).register(lease_s=1e6)
    owners = {new_id(): owner for owner in [*living, *dead, *dead]}
    journal.apply(Work(claims=[claim(name) for name in owners]))
    for name, owner in owners.items():
        database.change(
            "UPDATE onceward_request SET owner = :owner WHERE request_id = :name",
            owner=owner, name=name,
        )  # fmt: skip
    found = journal.dead_claims(["payments"], 100)
    expected = database.query(
        "SELECT request_id, owner FROM onceward_request ORDER BY owner, request_id"
    )
    assert [row.request_id for row in found] == [
        one["request_id"] for one in expected if one["owner"] in dead
    ]
    assert journal.dead_claims(["payments"], 7) == found[:7]


@pytest.mark.parametrize("journal_url", ["postgres"], indirect=True)
def test_a_look_for_failures_without_a_letter_costs_what_has_ended_since(
    journal: Journal, database: Database, group: str
) -> None:
    def looks(within_ms: int) -> list[Look]:
        parameters = {
            "this_group": group, "this_worker": "me", "these_topics": ["payments"], "after": -1,
            "after_id": "", "most": 200, "within": within_ms,
        }  # fmt: skip
        statements = (
            _count_waiting(_DEAD, "postgresql"),
            _page(_DEAD, "postgresql", of_the_dead=True),
        )

        def look_by(one: Select[Any]) -> Look:
            return lambda connection: connection.execute(one, parameters).all()

        return [look_by(one) for one in statements]

    with _long_snapshot(database):
        database.change(_ENDED, group=group, count=ENDED)
        database.change("UPDATE onceward_request SET state = 'FAILED', published_at = 1")
        database.change("UPDATE onceward_request SET dead_letter_at = 1")
        index = "onceward_open_dead"
        whole = [_read(database, look, index=index) for look in looks(EVER_MS)]
        part = [_read(database, look, index=index) for look in looks(SLICE_MS)]
    assert min(whole) > ENDED / 50
    assert max(part) < min(whole) / 10


@pytest.mark.parametrize("journal_url", ["postgres"], indirect=True)
def test_a_look_for_overdue_retries_costs_what_was_due_since(
    journal: Journal, database: Database, group: str
) -> None:
    def look(within_ms: int) -> Look:
        return lambda connection: find_overdue(
            connection, group, topics=["payments"], limit=100, older_than_ms=0,
            cursor=FROM_THE_OLDEST, within_ms=within_ms,
        )  # fmt: skip

    name = new_id()
    with _long_snapshot(database):
        database.change(_RETRYING, group=group, count=ENDED)
        database.change("UPDATE onceward_request SET state = 'SUCCEEDED', due_at = NULL")
        journal.apply(Work(claims=[claim(name)]))
        journal.apply(Work(finishes=[finish(name, state=JournalState.RETRYING, delay_ms=0)]))
        index = "onceward_open_retrying"
        whole = _read(database, look(EVER_MS), index=index)
        part = _read(database, look(SLICE_MS), index=index)
        found = journal.overdue_retries(["payments"], 10, 0, within_ms=60_000)
    assert whole > ENDED / 50
    assert part < whole / 10
    assert [one.row.request_id for one in found] == [name]


@pytest.mark.parametrize("journal_url", ["postgres"], indirect=True)
def test_what_a_gone_worker_ended_is_not_read_again_once_nothing_of_it_is_left(
    open_journal: OpenJournal, database: Database, open_leases: OpenLeases, group: str
) -> None:
    for number in range(3):
        open_leases(f"worker-{number}").register(lease_s=1e6)
    open_leases("me").register(lease_s=1e6)
    gone = GoneOwners()

    def look(connection: Connection) -> list[Row]:
        return dead_claims.find(
            connection, group, topics=["payments"], limit=500, worker_id="me", gone=gone
        )

    index = "onceward_open_claimed"
    with _long_snapshot(database):
        database.change(_CLAIMED, group=group, count=ENDED)
        database.change("UPDATE onceward_request SET state = 'SUCCEEDED', published_at = 1")
        database.change("UPDATE onceward_worker SET lease_until = 1 WHERE worker_id = 'worker-1'")
        read = [_read(database, look, index=index)]
        # As after a slow look, a while later.
        now_s = monotonic_s()
        gone.found((), now_s - SETTLED_AFTER_S, is_complete=False)
        gone.ended(now_s - 10, now_s)
        read.append(_read(database, look, index=index))
        peer = open_journal("worker-3")
        peer.apply(Work(claims=[claim(name := new_id())]))
        with database.engine.connect() as connection:
            found = look(connection)
    assert read[0] > ENDED / 3 / 50
    assert read[1] < read[0] / 5
    assert [row.request_id for row in found] == [name]
