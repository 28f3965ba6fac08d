"""Redis that dies, forgets, is full, is slow, or stands still; work goes on without it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from redis import Redis as RedisClient

from feedback.clock import monotonic_s
from feedback.status import FINAL
from tests.chaos.figure import Figure
from tests.chaos.flow import longest_gap_s
from tests.chaos.ground import Linked
from tests.chaos.pace import Rate, Window
from tests.chaos.row import JournalKind, Own, Row
from tests.chaos.scene import Scene
from tests.eventually import eventually

WORKERS = 2
RATE = 100.0
# Enough in Kafka for work to go on while nobody can send.
BACKLOG_FULL, BACKLOG_SHORT = 4_000, 2_500
BEGUN_BEFORE = 200
REPAIRED_WITHIN_S = 5.0
NEVER_IDLE_S = 1.0
LATENCY_MS = 500


def redis_kill(scene: Scene) -> list[Figure]:
    """Kill Redis, and have it back after 3 s with its data."""
    return _without_redis(scene, away_s=3.0)


def redis_away(scene: Scene) -> list[Figure]:
    """The same for a minute, which is longer than the backlog lasts."""
    return _without_redis(scene, away_s=scene.size(60.0, short=8.0))[:1]


def _without_redis(scene: Scene, *, away_s: float) -> list[Figure]:
    _work_on_backlog(scene)
    began_s = monotonic_s()
    with scene.ground.redis.down():
        scene.pause(away_s)
    back_s = monotonic_s()
    before = scene.journal.states()
    scene.pause(max(0.0, back_s + REPAIRED_WITHIN_S - monotonic_s()))
    wrong = _wrong(scene, before)
    scene.await_told()
    gap_s = longest_gap_s(scene.bank_account().begins, began_s, back_s)
    return [
        Figure(f"wrong statuses {REPAIRED_WITHIN_S:g} s after its return", wrong, most=0),
        Figure("s without work while it was away", gap_s, most=NEVER_IDLE_S, timed=True),
    ]


def _work_on_backlog(scene: Scene) -> None:
    scene.start_workers(WORKERS)
    most = scene.size(BACKLOG_FULL, short=BACKLOG_SHORT)
    scene.clients.start(Window(most), most=2 * most)
    eventually(
        lambda: scene.clients.sent >= most and scene.begun() >= BEGUN_BEFORE,
        timeout_s=120.0,
        interval_s=0.2,
        what="a backlog",
    )


def _wrong(scene: Scene, journal: dict[str, str]) -> int:
    """Count what had ended in the journal before, and reads otherwise now."""
    ended = [one for one, state in journal.items() if state in FINAL]
    statuses = scene.client.store.read_many(ended)
    return sum(one.state != journal[one.request_id] for one in statuses)


def redis_empty(scene: Scene) -> list[Figure]:
    """Kill Redis, and have it back at once, empty."""

    def restart() -> None:
        with scene.ground.redis.down(empty=True):
            scene.pause(1.0)

    return _under_load(scene, restart)


def redis_oom(scene: Scene) -> list[Figure]:
    """Have Redis refuse each write for want of memory."""

    def fill() -> None:
        with closing(RedisClient.from_url(scene.ground.redis.address)) as redis:
            redis.config_set("maxmemory-policy", "noeviction")
            redis.config_set("maxmemory", "1mb")
            scene.pause(scene.size(15.0, short=5.0))
            redis.config_set("maxmemory", "0")

    return _under_load(scene, fill)


def redis_slow(scene: Scene) -> list[Figure]:
    """Have each answer of Redis come half a second late."""

    def delay() -> None:
        with scene.ground.links[Linked.REDIS].slow(LATENCY_MS):
            scene.pause(scene.size(30.0, short=8.0))

    return _under_load(scene, delay)


def redis_hang(scene: Scene) -> list[Figure]:
    """Have Redis stand still: connections stay open, nothing is answered."""

    def stop() -> None:
        with scene.ground.redis.paused():
            scene.pause(scene.size(12.0, short=5.0))

    return _under_load(scene, stop)


def _under_load(scene: Scene, fault: Callable[[], None]) -> list[Figure]:
    scene.start_workers(WORKERS)
    scene.clients.start(Rate(RATE))
    scene.pause(scene.size(8.0, short=3.0))
    fault()
    scene.pause(scene.size(10.0, short=4.0))
    scene.await_told()
    return []


ROWS = (
    Row(
        "redis-kill",
        "Redis killed under load, back after 3 s with its data",
        JournalKind.SQLITE,
        redis_kill,
        own=frozenset({Own.KEPT_REDIS}),
    ),
    Row(
        "redis-away",
        "Redis killed under load, back after 60 s with its data",
        JournalKind.POSTGRES,
        redis_away,
        own=frozenset({Own.KEPT_REDIS}),
        tell_within_s=120.0,
    ),
    Row(
        "redis-empty",
        "Redis killed under load, back empty",
        JournalKind.SQLITE,
        redis_empty,
        own=frozenset({Own.REDIS}),
        tell_within_s=90.0,
    ),
    Row(
        "redis-oom",
        "Redis refuses writes for want of memory for 15 s",
        JournalKind.POSTGRES,
        redis_oom,
        own=frozenset({Own.REDIS}),
    ),
    Row(
        "redis-slow",
        "each answer of Redis 500 ms late for 30 s",
        JournalKind.SQLITE,
        redis_slow,
        own=frozenset({Own.REDIS, Own.LINKS}),
    ),
    Row(
        "redis-hang",
        "Redis stands still for 12 s",
        JournalKind.POSTGRES,
        redis_hang,
        own=frozenset({Own.REDIS}),
    ),
)
