"""PostgreSQL looks the rows of a batch up, also in a table of which it has no statistics."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, text

from consumer.journal.batch import FINISHES, RUNS, STATES, BatchShape
from consumer.journal.claims.finishing import _finish, _mark_effect, _mark_published
from consumer.journal.schema import look_up_by_index
from feedback.records.envelope import new_request_id
from tests.consumer.journal.conftest import Database

pytestmark = pytest.mark.parametrize("journal_url", ["postgres"], indirect=True)
_CLAIMED = """
INSERT INTO onceward_request ("group", request_id, topic, partition, "offset", payload_sha256,
    attempt, generation, deadline_at, state, owner, claimed_at)
SELECT 'g', 'run-' || n, 'payments', 0, n, '', 1, 1, 4102444800000, 'CLAIMED', 'me', 1
FROM generate_series(1, 1500) AS n
"""
ENDED = ("g", "run-7", 1, "SUCCEEDED", None, None, None, 0, None)
STATEMENTS: dict[str, tuple[Callable[[str], Any], BatchShape, Any, dict[str, Any]]] = {
    "finish": (
        partial(_finish, is_ours=True),
        FINISHES,
        ENDED,
        {"found": "CLAIMED", "this_worker": "me"},
    ),
    "late finish": (partial(_finish, is_ours=False), FINISHES, ENDED, {"found": "IN_DOUBT"}),
    "effect": (partial(_mark_effect, only_in_time=False), RUNS, ENDED[:3], {"this_worker": "me"}),
    "effect in time": (
        partial(_mark_effect, only_in_time=True),
        RUNS,
        ENDED[:3],
        {"this_worker": "me"},
    ),
    "published": (_mark_published, STATES, ENDED[:4], {}),
}


def _plan(connection: Connection, statement: Any, given: dict[str, object]) -> str:
    compiled = statement.compile(connection)
    parameters = compiled.construct_params(given)
    rows = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {compiled}", parameters)
    return json.dumps(rows.scalar_one())


@pytest.mark.parametrize("name", STATEMENTS)
def test_one_run_is_looked_up_by_its_key(database: Database, name: str) -> None:
    make, shape, row, parameters = STATEMENTS[name]
    with database.engine.connect() as connection:
        connection.execute(text(_CLAIMED))
        given = shape.load(connection, [row]) | parameters
        plan = _plan(connection, make("postgresql"), given)
        connection.rollback()
    assert "onceward_request_pkey" in plan
    assert '"Seq Scan"' not in plan


def test_the_copy_is_never_read_whole(database: Database) -> None:
    # Planned for a large batch while the copy is small: a session keeps this plan.
    scans = text("SELECT seq_scan FROM pg_stat_xact_user_tables WHERE relname = 'onceward_open'")
    with database.engine.connect() as connection:
        connection.execute(text("DISCARD PLANS"))
        connection.execute(text(_CLAIMED))
        connection.execute(text("UPDATE onceward_request SET state = 'FAILED', published_at = 1"))
        ended = "UPDATE onceward_request SET state = 'SUCCEEDED' WHERE request_id = 'run-7'"
        connection.execute(text(ended))
        connection.execute(text("DELETE FROM onceward_request"))
        read_whole = connection.execute(scans).scalar_one()
        connection.rollback()
    assert read_whole == 0


_SET = text("SELECT 1 FROM pg_proc WHERE 'enable_seqscan=off' = ANY (proconfig)")
_RESET = text("ALTER FUNCTION onceward_copy_changed() RESET enable_seqscan")


def test_a_migration_sets_how_an_older_database_plans_its_triggers(database: Database) -> None:
    with database.engine.connect() as connection:
        connection.execute(_RESET)
        assert len(connection.execute(_SET).all()) == 2
        look_up_by_index(connection)
        assert len(connection.execute(_SET).all()) == 3
        connection.rollback()


def test_a_role_that_does_not_own_the_triggers_migrates_all_the_same(database: Database) -> None:
    role = f"planner_{new_request_id()[-8:]}"
    with database.engine.connect() as connection:
        connection.execute(_RESET)
        connection.execute(text(f'CREATE ROLE "{role}"'))
        connection.execute(text(f'SET LOCAL ROLE "{role}"'))
        look_up_by_index(connection)
        assert len(connection.execute(_SET).all()) == 2
        connection.rollback()
