"""Redis that goes back in time, is emptied while it runs, or throws keys away."""

from __future__ import annotations

from contextlib import closing

from redis import Redis as RedisClient

from tests.chaos.account import Forgotten
from tests.chaos.callers import (
    ENDS_WITHIN_S,
    await_pending,
    said_by,
    take_over,
    without_kafka,
)
from tests.chaos.figure import Figure
from tests.chaos.pace import Rate
from tests.chaos.row import LIGHT, JournalKind, Own, Row
from tests.chaos.scene import Scene

WORKERS = 2
RATE = 15.0
ROOM_BYTES = 40_000
# Of the numbers of orders, behind those of the load.
FIRST = 1_000_000
AT_ONCE = 16


def redis_older(scene: Scene) -> list[Figure]:
    """Have Redis come back as it was in the middle of sends that Kafka then did not take."""
    scene.start_workers(WORKERS)
    scene.clients.start(Rate(RATE))
    for number in range(scene.size(3, short=1)):
        scene.flow(scene.size(8.0, short=3.0))
        _go_back(scene, FIRST + number * AT_ONCE)
        scene.pause(scene.size(15.0, short=5.0))
    scene.await_told()
    return [Figure("told NotSent", len(scene.clients.not_sent), least=1)]


def _go_back(scene: Scene, first: int) -> None:
    with scene.ground.kafka.down():
        # A client that had a connection cannot say what became of its records; a new one can.
        caller = scene.start_caller("at-once", first=first, count=AT_ONCE)
        await_pending(scene, caller, AT_ONCE)
        with closing(RedisClient.from_url(scene.ground.redis.address)) as redis:
            redis.save()
        caller.ended(within_s=ENDS_WITHIN_S)
        take_over(scene, caller)
        with scene.ground.redis.down():
            pass


def redis_flushed(scene: Scene) -> list[Figure]:
    """Empty Redis by FLUSHALL; send what was sent before it once more, to a Kafka that is away."""
    scene.start_workers(WORKERS)
    scene.clients.start(Rate(RATE))
    told: list[str] = []
    for number in range(scene.size(3, short=1)):
        first = FIRST + number * AT_ONCE
        scene.flow(scene.size(8.0, short=3.0))
        sending = scene.start_caller("at-once", first=first, count=AT_ONCE)
        sending.ended(within_s=ENDS_WITHIN_S)
        take_over(scene, sending)
        with closing(RedisClient.from_url(scene.ground.redis.address)) as redis:
            redis.flushall()
        settings = without_kafka(scene)
        again = scene.start_caller("at-once", settings=settings, first=first, count=AT_ONCE)
        again.ended(within_s=ENDS_WITHIN_S)
        told += [one.told for one in said_by(again) if one.told != "began"]
        scene.pause(scene.size(8.0, short=4.0))
    return [
        Figure("told SendUnknown of what was sent before", told.count("SendUnknown"), least=1),
        Figure("told NotSent of what was sent before", told.count("NotSent"), most=0),
    ]


def redis_evicts(scene: Scene) -> list[Figure]:
    """Have Redis throw keys away at random, for want of memory."""
    scene.start_workers(WORKERS)
    scene.clients.start(Rate(RATE))
    scene.flow(scene.size(8.0, short=3.0))
    with closing(RedisClient.from_url(scene.ground.redis.address)) as redis:
        used = int(redis.info("memory")["used_memory"])
        redis.config_set("maxmemory-policy", "allkeys-random")
        redis.config_set("maxmemory", str(used + ROOM_BYTES))
        scene.pause(scene.size(40.0, short=12.0))
        redis.config_set("maxmemory", "0")
        evicted = int(redis.info("stats")["evicted_keys"])
    return [Figure("keys thrown away", evicted, least=1)]


ROWS = (
    Row(
        "redis-older",
        "Kafka away, and Redis back as it was in the middle of the sends",
        JournalKind.SQLITE,
        redis_older,
        settings=LIGHT,
        own=frozenset({Own.REDIS, Own.KAFKA}),
        tell_within_s=90.0,
    ),
    Row(
        "redis-flushed",
        "FLUSHALL under load, three times",
        JournalKind.POSTGRES,
        redis_flushed,
        settings=LIGHT,
        own=frozenset({Own.REDIS}),
        tell_within_s=90.0,
        settle_s=30.0,
    ),
    Row(
        "redis-evicts",
        "Redis throws keys away at random for 40 s",
        JournalKind.SQLITE,
        redis_evicts,
        settings=LIGHT,
        own=frozenset({Own.REDIS}),
        tell_within_s=90.0,
        settle_s=30.0,
        forgotten=Forgotten.STATUSES,
    ),
)
