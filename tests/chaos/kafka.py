"""Brokers that stop, are away, or are killed one of three; sends and reads go on by themselves."""

from __future__ import annotations

from collections.abc import Callable

from feedback.clock import monotonic_s
from tests.chaos.figure import Figure
from tests.chaos.flow import slowest_place_s
from tests.chaos.pace import Rate
from tests.chaos.row import JournalKind, Own, Row
from tests.chaos.scene import Scene

WORKERS = 2
RATE = 100.0
PROGRESS_WITHIN_S = 15.0


def kafka_restart(scene: Scene) -> list[Figure]:
    """Stop the broker as an operator does, and start it again."""

    def restart() -> None:
        scene.ground.kafka.stop()
        scene.ground.kafka.start()

    return _goes_on(scene, restart)


def kafka_away(scene: Scene) -> list[Figure]:
    """Kill the broker, and have it back after a minute."""

    def away() -> None:
        with scene.ground.kafka.down():
            scene.pause(scene.size(60.0, short=10.0))

    return _goes_on(scene, away)


def kafka_one_of_three(scene: Scene) -> list[Figure]:
    """Kill one of three brokers, go on with two, and have it back."""

    def kill() -> None:
        node = scene.random.choice(sorted(scene.ground.cluster.brokers))
        with scene.ground.cluster.brokers[node].down():
            scene.pause(scene.size(30.0, short=12.0))

    return _goes_on(scene, kill)


def _goes_on(scene: Scene, fault: Callable[[], None]) -> list[Figure]:
    scene.start_workers(WORKERS)
    scene.clients.start(Rate(RATE))
    scene.pause(scene.size(8.0, short=3.0))
    fault()
    return partitions_go_on(scene)


def partitions_go_on(scene: Scene) -> list[Figure]:
    """Let the load go on from the end of a fault, and look at the progress of each partition."""
    ended_s = monotonic_s()
    scene.pause(scene.size(20.0, short=10.0))
    scene.await_told()
    since = {one for one, ticket in scene.clients.tickets.items() if ticket.sent_s >= ended_s}
    places = {one: place for one, place in scene.journal.places().items() if one in since}
    slowest_s = slowest_place_s(scene.bank_account().begins, places, ended_s)
    what = "s until the last partition went on"
    return [
        Figure("partitions", len(set(places.values())), least=1),
        Figure(what, slowest_s, most=PROGRESS_WITHIN_S, timed=True),
    ]


ROWS = (
    Row(
        "kafka-restart",
        "the broker stopped and started",
        JournalKind.SQLITE,
        kafka_restart,
        own=frozenset({Own.KAFKA}),
    ),
    Row(
        "kafka-away",
        "the broker killed, back after 60 s",
        JournalKind.POSTGRES,
        kafka_away,
        own=frozenset({Own.KAFKA}),
        tell_within_s=120.0,
    ),
    Row(
        "kafka-one-of-three",
        "one of three brokers killed, back after 30 s",
        JournalKind.SQLITE,
        kafka_one_of_three,
        own=frozenset({Own.CLUSTER}),
    ),
)
