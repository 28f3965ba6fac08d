"""The store on a real Redis and on the fake: one suite for both."""

from collections.abc import Iterator

import pytest
from fakeredis import FakeRedis, FakeServer
from redis import Redis

from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import RedisSection
from onceward.servers import redis as redis_stack
from tests.stack.restartable import Restartable, restartable


@pytest.fixture(params=["redis", "fakeredis"])
def redis(request: pytest.FixtureRequest) -> Iterator[Redis]:
    """Yield a client: the test runs once on a server and once on the fake."""
    client: Redis
    if request.param == "fakeredis":
        client = FakeRedis(server=FakeServer())
    else:
        client = connect(RedisSection(url=request.getfixturevalue("redis_url")))
    yield client
    client.close()


@pytest.fixture
def store(redis: Redis, group: str) -> StatusStore:
    """Return the store of a group nobody else uses."""
    return StatusStore(redis, group, RedisSection())


@pytest.fixture
def server() -> Iterator[Restartable]:
    """Yield a Redis that the test may kill."""
    with restartable(redis_stack.Redis) as running:
        yield running
