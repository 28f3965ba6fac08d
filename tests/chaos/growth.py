"""A topic that gets partitions under load, and a database that gives too few connections."""

from __future__ import annotations

from urllib.parse import urlsplit

import psycopg
from kafka.admin import KafkaAdminClient, NewPartitions

from feedback.clock import monotonic_s
from tests.chaos.figure import Figure
from tests.chaos.flow import slowest_place_s
from tests.chaos.pace import Rate, Window
from tests.chaos.row import LIGHT, JournalKind, Own, Row
from tests.chaos.scene import Scene
from tests.demo.topic import PARTITIONS
from tests.stack.postgres import dsn

WORKERS = 2
RATE = 15.0
# Metadata of 30 s, and a rebalance.
READ_WITHIN_S = 45.0
APPLICATION = "application"
CONNECTIONS = 25
SLOTS_PER_PROCESS = 8


def partitions_added(scene: Scene) -> list[Figure]:
    """Double the partitions of all topics under load."""
    scene.start_workers(WORKERS)
    scene.clients.start(Rate(RATE))
    scene.flow(scene.size(10.0, short=2.0))
    with KafkaAdminClient(bootstrap_servers=scene.place.kafka) as admin:
        grown = {name: NewPartitions(2 * PARTITIONS) for name in scene.place.topics.values()}
        admin.create_partitions(grown)
    added_s = monotonic_s()
    scene.pause(scene.size(90.0, short=READ_WITHIN_S))
    scene.await_told()
    places = {one: place for one, place in scene.journal.places().items() if place[1] >= PARTITIONS}
    read_s = slowest_place_s(scene.bank_account().begins, places, added_s)
    return [
        Figure("new partitions with requests", len(set(places.values())), least=1),
        Figure("s until the last of them was read", read_s, most=READ_WITHIN_S, timed=True),
    ]


def few_connections(scene: Scene) -> list[Figure]:
    """Have workers with more slots than their database gives connections."""
    variables = {"ONCEWARD_JOURNAL__URL": _of_application(scene)}
    scene.fleet.start(scene.size(4, short=3), variables=variables)
    scene.clients.start(Window(scene.size(256, short=128)))
    scene.flow(scene.size(40.0, short=10.0))
    scene.await_told()
    codes = list(scene.journal.codes().values())
    return [Figure("ended as JOURNAL_UNAVAILABLE", codes.count("JOURNAL_UNAVAILABLE"), most=0)]


def _of_application(scene: Scene) -> str:
    """Return the URL for a user of its own: the superuser has connections in reserve."""
    url = scene.ground.postgres.address
    with psycopg.connect(dsn(url), autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {APPLICATION} LOGIN")
        for what in ("TABLES", "SEQUENCES"):
            admin.execute(f"GRANT ALL ON ALL {what} IN SCHEMA public TO {APPLICATION}")
    return url.replace(f"{urlsplit(url).username}@", f"{APPLICATION}@", 1)


ROWS = (
    Row(
        "partitions-added",
        "each topic gets twice its partitions under load",
        JournalKind.SQLITE,
        partitions_added,
        settings=LIGHT,
        tell_within_s=90.0,
    ),
    Row(
        "few-connections",
        f"workers of 16 slots each on a PostgreSQL of max_connections={CONNECTIONS}",
        JournalKind.POSTGRES,
        few_connections,
        own=frozenset({Own.POSTGRES}),
        settings={"worker": {"slots_per_process": SLOTS_PER_PROCESS}},
        postgres={"max_connections": str(CONNECTIONS)},
        tell_within_s=90.0,
    ),
)
