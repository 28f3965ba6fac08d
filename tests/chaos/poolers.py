"""A pooler in transaction mode before the journal: a connection is somebody else's in between."""

from __future__ import annotations

import psycopg

from tests.chaos.figure import Figure
from tests.chaos.pace import Rate
from tests.chaos.place import DRAIN_TIMEOUT_S
from tests.chaos.row import LIGHT, JournalKind, Row
from tests.chaos.scene import Scene
from tests.stack.pgbouncer import pooler
from tests.stack.postgres import dsn

WORKERS = 2
RATE = 15.0
POOL = 6
OURS = ("statement_timeout", "idle_in_transaction_session_timeout", "synchronous_commit")


def behind_pooler(scene: Scene) -> list[Figure]:
    """Reach the journal through a pooler, and look as a stranger at what is left behind there."""
    with pooler(scene.place.journal.direct, pool_size=POOL) as url:
        untouched = _seen(scene.place.journal.direct)
        variables = {"ONCEWARD_JOURNAL__URL": url}
        scene.fleet.start(WORKERS, variables=variables)
        scene.clients.start(Rate(RATE))
        scene.flow(1.0)
        touched = 0
        for number in range(scene.size(60, short=10)):
            touched += _seen(url) != untouched
            if number % 5 == 2:
                scene.random.choice(scene.fleet.alive).kill()
                scene.fleet.start(variables=variables)
            scene.pause(0.5)
        scene.await_told()
        scene.fleet.end_all(DRAIN_TIMEOUT_S)
        touched += _seen(url) != untouched
    scene.fleet.start()
    return [Figure("looks at a connection that was left as ours", touched, most=0)]


def _seen(url: str) -> tuple[object, ...] | None:
    """Return how the connection is set that somebody else gets."""
    shown = ", ".join(f"current_setting('{name}')" for name in OURS)
    with psycopg.connect(dsn(url), prepare_threshold=None) as connection:
        return connection.execute(f"SELECT {shown}".encode()).fetchone()


ROWS = (
    Row(
        "pooler",
        "the journal behind a pooler in transaction mode; workers killed",
        JournalKind.POSTGRES,
        behind_pooler,
        settings=LIGHT,
    ),
)
