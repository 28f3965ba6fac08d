"""The journal's database away: nothing new is claimed, and work resumes when it is back."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing

from feedback.clock import monotonic_s
from tests.chaos.figure import Figure
from tests.chaos.flow import resumed_after_s
from tests.chaos.pace import Rate
from tests.chaos.place import JOURNAL_FILE, LEASE_S
from tests.chaos.row import LIGHT, JournalKind, Own, Row
from tests.chaos.scene import Scene

WORKERS = 2
RATE = 100.0
FEW = 15.0
RESUMES_WITHIN_S = 3.0


def postgres_away(scene: Scene) -> list[Figure]:
    """Kill PostgreSQL, and have it back after a minute."""

    def away() -> None:
        with scene.ground.postgres.down():
            scene.pause(scene.size(60.0, short=8.0))

    return _resumes(scene, away)


def postgres_and_worker(scene: Scene) -> list[Figure]:
    """Kill PostgreSQL and a worker with it: the copy of the open requests is gone with both."""
    scene.start_workers(WORKERS)
    scene.clients.start(Rate(FEW))
    for _ in range(scene.size(5, short=1)):
        scene.flow(1.0 + scene.random.random())
        with scene.ground.postgres.down():
            killed = scene.fleet.alive[0]
            killed.kill()
        scene.fleet.start()
        scene.flow(4.0 * LEASE_S)
    return []


def postgres_restart(scene: Scene) -> list[Figure]:
    """Stop PostgreSQL as an operator does, and start it again, three times."""

    def restart() -> None:
        for number in range(scene.size(3, short=1)):
            scene.pause(3.0 if number else 0.0)
            scene.ground.postgres.stop()
            scene.ground.postgres.start()

    return _resumes(scene, restart)


def sqlite_locked(scene: Scene) -> list[Figure]:
    """Have another process hold the lock of the journal's file."""

    def lock() -> None:
        with closing(
            sqlite3.connect(scene.place.folder / JOURNAL_FILE, isolation_level=None)
        ) as other:
            other.execute("BEGIN IMMEDIATE")
            scene.pause(scene.size(20.0, short=8.0))
            other.execute("ROLLBACK")

    return _resumes(scene, lock)


def _resumes(scene: Scene, fault: Callable[[], None]) -> list[Figure]:
    scene.start_workers(WORKERS)
    scene.clients.start(Rate(RATE))
    scene.pause(scene.size(8.0, short=3.0))
    fault()
    back_s = monotonic_s()
    scene.pause(scene.size(10.0, short=5.0))
    scene.await_told()
    resumed_s = resumed_after_s(scene.bank_account().begins, back_s)
    what = "s until work resumed after its return"
    return [Figure(what, resumed_s, most=RESUMES_WITHIN_S, timed=True)]


ROWS = (
    Row(
        "postgres-away",
        "PostgreSQL killed, back after 60 s",
        JournalKind.POSTGRES,
        postgres_away,
        own=frozenset({Own.POSTGRES}),
        tell_within_s=120.0,
    ),
    Row(
        "postgres-and-worker",
        "PostgreSQL and one of two workers killed at once, five times",
        JournalKind.POSTGRES,
        postgres_and_worker,
        own=frozenset({Own.POSTGRES}),
        settings=LIGHT,
        tell_within_s=60.0,
    ),
    Row(
        "postgres-restart",
        "PostgreSQL stopped and started, three times",
        JournalKind.POSTGRES,
        postgres_restart,
        own=frozenset({Own.POSTGRES}),
    ),
    Row(
        "sqlite-locked",
        "another process holds the lock of the journal's file for 20 s",
        JournalKind.SQLITE,
        sqlite_locked,
    ),
)
