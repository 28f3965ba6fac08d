"""The store on a real Redis and on the fake: one suite for both."""

from collections.abc import Iterator

import pytest
from fakeredis import FakeRedis, FakeServer
from hypothesis import settings
from redis import Redis

from feedback.redis_server import connect
from feedback.settings import RedisSection
from feedback.store import StatusStore
from tests.stack import redis as redis_stack
from tests.stack.restartable import Restartable, restartable

# A machine that is busy with servers is slow now and then: that is no finding.
settings.register_profile("onceward", deadline=None, max_examples=60, database=None)
settings.load_profile("onceward")


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
