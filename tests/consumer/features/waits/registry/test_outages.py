"""Servers that are away: nothing expires falsely, and all goes on afterwards."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from onceward.servers.keeper import Keeper
from onceward.servers.launch import launch
from onceward.servers.redis import Redis
from tests.consumer.features.waits.registry.conftest import MakeScene
from tests.left_open import left_open
from tests.stack.postgres import Postgres, fresh_database
from tests.stack.restartable import Restartable
from tests.stack.servers import Servers
from tests.stack.toxiproxy import Link, Links

pytestmark = pytest.mark.waits

REQUESTS = 500
SOON_S = 4.0


@dataclass(frozen=True, slots=True)
class Far:
    """A database behind a link."""

    link: Link
    url: str


@pytest.fixture(scope="module")
def keeper() -> Iterator[Keeper]:
    """Yield the owner of the servers and of Toxiproxy."""
    with left_open(), Keeper() as opened:
        yield opened


@pytest.fixture
def far(keeper: Keeper) -> Iterator[Far]:
    """Yield a PostgreSQL that the registry reaches over a link, and the test itself directly."""
    server = launch(keeper, Postgres)
    link = Links(keeper).to(server.address)
    with fresh_database(server.address, f"registry_{uuid.uuid4().hex}") as url:
        yield Far(link, url)


@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.parametrize("fault", ["down", "half_open"])
def test_what_was_finished_while_the_database_was_away_is_not_reported(
    make_scene: MakeScene, far: Far, fault: str
) -> None:
    scene = make_scene(database_url=far.url)
    through = {"url": far.link.at(far.url)}
    registry = scene.start(registry=through, journal={"url": far.url, "timeout_s": 2})
    names = [f"request-{at}" for at in range(REQUESTS)]
    scene.write([scene.wait(name, expires_in_s=SOON_S) for name in names])
    scene.await_waiting(set(names))
    with getattr(far.link, fault)():
        registry.told("registry_database.away", timeout_s=60)
        scene.end(names[:-3])
        scene.write([scene.wait("new", expires_in_s=SOON_S)])
        scene.await_past(SOON_S)
    expected = {*names[-3:], "new"}
    assert scene.await_letters(expected) == dict.fromkeys(expected, 1)
    scene.await_waiting(set())
    registry.told("registry_database.back")
    assert registry.stop() == 0
    assert len(registry.events("registry_database.away")) == 1


@pytest.mark.long
@pytest.mark.timeout(240)
def test_while_redis_is_away_nothing_expires(
    make_scene: MakeScene, servers: Servers, keeper: Keeper
) -> None:
    redis = Restartable(keeper, Redis)
    where = Servers(kafka=servers.kafka, redis=redis.address, postgres=servers.postgres)
    scene = make_scene(servers=where)
    # A server that is killed refuses at once; only a machine that stands still takes longer.
    registry = scene.start(redis={"timeout_s": 10})
    scene.await_owned()
    with redis.down():
        scene.write([scene.wait("a"), scene.wait("b", holder="", partition=1)])
        registry.told("redis.away", timeout_s=30)
        scene.await_waiting({"a", "b"})
        assert scene.letters() == {}
    assert scene.await_letters({"a", "b"}) == {"a": 1, "b": 1}
    assert len(registry.events("redis.away")) == 1
    assert registry.stop() == 0


@pytest.mark.long
@pytest.mark.timeout(240)
def test_a_registry_that_starts_reads_to_the_end_before_it_moves_anything(
    make_scene: MakeScene,
) -> None:
    scene = make_scene()
    names = [f"request-{at}" for at in range(20_000)]
    scene.write([scene.wait(name) for name in names])
    scene.end(names[1:])
    done = scene.once()
    assert done.wait() == 0
    assert scene.letters() == {names[0]: 1}


def test_new_wait_topics_are_found_while_it_runs(make_scene: MakeScene) -> None:
    scene = make_scene()
    registry = scene.start()
    scene.write([scene.wait("a")])
    scene.await_letters({"a"})
    other = f"other-{uuid.uuid4().hex}"
    scene.create(other)
    scene.create(f"{other}.{scene.group}.wait", configs={"cleanup.policy": "compact"})
    scene.topic = other
    scene.write([scene.wait("b")])
    assert scene.await_letters({"b"}) == {"b": 1}
    assert registry.stop() == 0
