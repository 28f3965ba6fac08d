"""Links that are reset under load, each in turn."""

from __future__ import annotations

from itertools import cycle

from feedback.clock import monotonic_s
from tests.chaos.figure import Figure
from tests.chaos.kafka import partitions_go_on
from tests.chaos.pace import Rate
from tests.chaos.row import JournalKind, Own, Row
from tests.chaos.scene import Scene

WORKERS = 2
RATE = 60.0
RESETS_FOR_S = 1.0
EVERY_S = 3.0


def links_reset(scene: Scene) -> list[Figure]:
    """Reset every connection to Kafka, Redis and PostgreSQL in turn."""
    scene.start_workers(WORKERS)
    scene.clients.start(Rate(RATE))
    scene.pause(3.0)
    until_s = monotonic_s() + scene.size(60.0, short=12.0)
    for link in cycle(scene.ground.links.values()):
        with link.resetting():
            scene.pause(RESETS_FOR_S)
        if monotonic_s() >= until_s:
            break
        scene.pause(EVERY_S - RESETS_FOR_S)
    return partitions_go_on(scene)


ROWS = (
    Row(
        "links-reset",
        "connections to Kafka, Redis and PostgreSQL reset in turn for 60 s",
        JournalKind.POSTGRES,
        links_reset,
        own=frozenset({Own.LINKS}),
    ),
)
