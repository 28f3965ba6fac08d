"""Of a group's workers one tells what all of them see; on a real Redis, and without one."""

from collections.abc import Iterator

import pytest

from consumer.features.alerts.alerts import AlertTurns
from consumer.features.alerts.grouping import AlertKind
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import RedisSection
from onceward.servers.ports import free_port
from tests.consumer.features.alerts.samples import alert
from tests.eventually import eventually

SEEN_BY_ALL = [AlertKind.AGE, AlertKind.HINDERED, AlertKind.PAUSED]
LIMIT_S = 60.0


@pytest.fixture
def store(redis_url: str, group: str) -> Iterator[StatusStore]:
    """Yield the Redis of a group."""
    section = RedisSection(url=redis_url)
    made = StatusStore(connect(section), group, section)
    yield made
    made.close()


def turns(store: StatusStore, worker_id: str, *, every_s: float = 60.0) -> AlertTurns:
    return AlertTurns(store, redis_away=lambda: False, worker_id=worker_id, every_s=every_s)


@pytest.mark.parametrize("kind", SEEN_BY_ALL)
def test_one_worker_tells_what_all_of_them_see(store: StatusStore, kind: AlertKind) -> None:
    first, second = turns(store, "a"), turns(store, "b")
    assert first.is_mine(alert(kind)) and not second.is_mine(alert(kind))
    assert second.is_mine(alert(kind, topic="orders"))


@pytest.mark.parametrize("kind", [AlertKind.FIRST, AlertKind.RATE])
def test_each_worker_tells_what_it_has_seen_itself(store: StatusStore, kind: AlertKind) -> None:
    assert all(turns(store, name).is_mine(alert(kind)) for name in ("a", "b"))


def test_after_a_while_whoever_sees_it_then_tells_it(store: StatusStore) -> None:
    assert turns(store, "a", every_s=0.2).is_mine(alert(AlertKind.AGE))
    second = turns(store, "b")
    eventually(lambda: second.is_mine(alert(AlertKind.AGE)), timeout_s=LIMIT_S, what="a turn")


def test_without_redis_everybody_tells(store: StatusStore, group: str) -> None:
    section = RedisSection(url=f"redis://127.0.0.1:{free_port()}/0", timeout_s=0.2)
    away = StatusStore(connect(section), group, section)
    assert all(turns(away, name).is_mine(alert(AlertKind.AGE)) for name in ("a", "b"))
    known_away = AlertTurns(store, redis_away=lambda: True, worker_id="a", every_s=60.0)
    assert known_away.is_mine(alert(AlertKind.AGE)) and known_away.is_mine(alert(AlertKind.AGE))
    away.close()
