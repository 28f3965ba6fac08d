"""A database that loses what it had acknowledged: killed without waiting for its disk, or replaced
by a standby that lagged; and one that there is twice."""

from __future__ import annotations

from collections.abc import Mapping

from tests.chaos.account import Forgotten
from tests.chaos.figure import Figure
from tests.chaos.pace import Rate
from tests.chaos.place import DRAIN_TIMEOUT_S, LEASE_S
from tests.chaos.row import LIGHT, JournalKind, Own, Row
from tests.chaos.scene import Scene

WORKERS = 2
RATE = 15.0
# Commits that do not wait for the disk wait this long for the writer.
LAZY: Mapping[str, str] = {"synchronous_commit": "off", "wal_writer_delay": "10s"}
LAGS_S = 2.0


def commits_lost(scene: Scene) -> list[Figure]:
    """Kill a PostgreSQL whose commits do not wait for its disk."""
    scene.take_longer()
    scene.start_workers(WORKERS)
    scene.clients.start(Rate(RATE))
    for _ in range(scene.size(5, short=2)):
        scene.flow(1.0 + scene.random.random())
        scene.ground.postgres.kill()
        scene.ground.postgres.start()
    scene.flow(scene.size(10.0, short=4.0))
    return []


def standby_promoted(scene: Scene) -> list[Figure]:
    """Fail over to a standby that lagged, and restart all workers in order after it."""
    pair = scene.ground.pair
    scene.take_longer()
    scene.start_workers(WORKERS)
    scene.clients.start(Rate(RATE))
    scene.flow(scene.size(8.0, short=3.0))
    pair.lag()
    scene.pause(LAGS_S)
    pair.fail_over()
    scene.flow(scene.size(10.0, short=LEASE_S))
    scene.fleet.end_all(DRAIN_TIMEOUT_S)
    scene.fleet.start(WORKERS)
    scene.flow(scene.size(10.0, short=LEASE_S))
    return []


def split_brain(scene: Scene) -> list[Figure]:
    """Promote the standby while the primary goes on, with a worker on either side."""
    pair = scene.ground.pair
    scene.take_longer()
    (stays,) = scene.fleet.start(variables=_on(pair.primary.address))
    (goes,) = scene.fleet.start(variables=_on(pair.primary.address))
    scene.clients.start(Rate(RATE))
    scene.flow(scene.size(8.0, short=3.0))
    pair.promote()
    goes.kill()
    scene.fleet.start(variables=_on(pair.standby.address), wait=False)
    scene.pause(scene.size(30.0, short=4.0 * LEASE_S))
    stays.end()
    stays.ended(within_s=DRAIN_TIMEOUT_S)
    # Whoever is left works on the side that the operator has promoted.
    scene.fleet.start(variables=_on(pair.standby.address))
    return []


def _on(url: str) -> Mapping[str, str]:
    return {"ONCEWARD_JOURNAL__URL": url}


ROWS = (
    Row(
        "commits-lost",
        "PostgreSQL with synchronous_commit=off killed, five times",
        JournalKind.POSTGRES,
        commits_lost,
        settings=LIGHT,
        own=frozenset({Own.POSTGRES}),
        postgres=LAZY,
        forgotten=Forgotten.ROWS,
    ),
    Row(
        "standby-promoted",
        "failover to a standby 2 s behind, then all workers restarted",
        JournalKind.POSTGRES,
        standby_promoted,
        settings=LIGHT,
        own=frozenset({Own.REPLICATED}),
        forgotten=Forgotten.ROWS,
    ),
    Row(
        "split-brain",
        "standby promoted beside a living primary, a worker on either side",
        JournalKind.POSTGRES,
        split_brain,
        settings=LIGHT,
        own=frozenset({Own.REPLICATED}),
        forgotten=Forgotten.ROWS,
        workers_end=True,
    ),
)
