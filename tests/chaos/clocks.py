"""Clocks that are wrong: those of clients, and the database's, which is set back and forth."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import psycopg

from feedback.clock import epoch_ms
from tests.chaos.figure import Figure
from tests.chaos.pace import Rate
from tests.chaos.place import DRAIN_TIMEOUT_S, LEASE_S
from tests.chaos.row import LIGHT, JournalKind, Own, Row
from tests.chaos.scene import Scene
from tests.stack.postgres import dsn

WORKERS = 2
RATE = 15.0
CLIENT_OFF_BY_S = (60.0, -60.0, 300.0)
DATABASE_OFF_BY_S = (-300.0, 120.0, 0.0)
# PostgreSQL looks for its own functions first, unless its schema is named behind another.
CLOCK = (
    "CREATE SCHEMA wrong",
    "CREATE TABLE wrong.clock (off_by_s double precision NOT NULL)",
    "INSERT INTO wrong.clock VALUES (0)",
    "CREATE FUNCTION wrong.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS "
    "'SELECT pg_catalog.clock_timestamp() + make_interval(secs => off_by_s) FROM wrong.clock'",
    "ALTER DATABASE postgres SET search_path = wrong, pg_catalog, public",
)


def clients_clock(scene: Scene) -> list[Figure]:
    """Have the clients' clock a minute off, ahead and behind, and five minutes ahead."""
    scene.start_workers(WORKERS)
    for off_by_s in CLIENT_OFF_BY_S:
        with _clients_off_by(off_by_s):
            scene.clients.start(Rate(RATE))
            scene.flow(scene.size(20.0, short=3.0))
            scene.await_told()
    return []


@contextmanager
def _clients_off_by(seconds: float) -> Iterator[None]:
    # The clients are in this process, and nothing else that reads the clock is.
    off_ms = int(seconds * 1000)
    with patch("producer_client.sending.send_flow.epoch_ms", lambda: epoch_ms() + off_ms):
        yield


def database_clock(scene: Scene) -> list[Figure]:
    """Set the database's clock back and forth while workers are killed."""
    _execute(scene, *CLOCK)
    scene.take_longer()
    scene.start_workers(WORKERS)
    scene.clients.start(Rate(RATE))
    for off_by_s in DATABASE_OFF_BY_S:
        scene.flow(scene.size(10.0, short=2.0))
        _execute(scene, f"UPDATE wrong.clock SET off_by_s = {off_by_s}")
        scene.random.choice(scene.fleet.alive).kill()
        scene.fleet.start()
        scene.pause(scene.size(15.0, short=LEASE_S + 3.0))
    scene.fleet.end_all(DRAIN_TIMEOUT_S)
    scene.fleet.start(WORKERS)
    return []


def _execute(scene: Scene, *statements: str) -> None:
    with psycopg.connect(dsn(scene.ground.postgres.address), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


ROWS = (
    Row(
        "clients-clock",
        "clients' clocks a minute ahead, a minute behind, five minutes ahead",
        JournalKind.SQLITE,
        clients_clock,
        settings=LIGHT,
    ),
    Row(
        "database-clock",
        "PostgreSQL's clock 5 minutes back, 2 ahead and right again; a worker killed each time",
        JournalKind.POSTGRES,
        database_clock,
        settings=LIGHT,
        own=frozenset({Own.POSTGRES}),
        tell_within_s=90.0,
    ),
)
