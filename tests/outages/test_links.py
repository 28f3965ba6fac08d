"""Links fail under load, one server's at a time: resets, 300 ms more, accepting and saying nothing.

Everything of the group goes through the link: the worker, its children and the client.
"""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from consumer.journal import Leases, migrate
from onceward.servers.kafka import Broker
from onceward.servers.keeper import Keeper
from onceward.servers.launch import launch
from onceward.servers.ports import HOST, free_port
from onceward.servers.redis import Redis
from tests.consumer.stage import Stage
from tests.left_open import left_open
from tests.outages.conftest import MakeStage
from tests.outages.scene import scene_on
from tests.rounds import in_time
from tests.stack.postgres import Postgres, fresh_database
from tests.stack.toxiproxy import Link, Links

pytestmark = pytest.mark.waits

LATENCY_MS = 300
RESETS = 3
HALF_OPEN_REQUESTS = 3
RESUMES_WITHIN_S = 40.0


@dataclass(frozen=True, slots=True)
class Far:
    """A server behind a link, and how a stage is told to use it."""

    link: Link
    facts: Callable[[], dict[str, str]]


@pytest.fixture(scope="module")
def keeper() -> Iterator[Keeper]:
    """Yield the owner of the servers and of Toxiproxy."""
    with left_open(), Keeper() as opened:
        yield opened


@pytest.fixture(scope="module")
def links(keeper: Keeper) -> Links:
    """Return the maker of links."""
    return Links(keeper)


@pytest.fixture(scope="module")
def kafka(keeper: Keeper, links: Links) -> Far:
    """Return a broker that tells its clients the link's address."""
    port = free_port()
    link = links.to(f"{HOST}:{port}")
    launch(keeper, lambda: Broker(port=port, advertised=link.address))
    return Far(link, lambda: {"kafka_at": link.address})


@pytest.fixture(scope="module")
def redis(keeper: Keeper, links: Links) -> Far:
    """Return a Redis behind a link."""
    server = launch(keeper, Redis)
    link = links.to(server.address)
    return Far(link, lambda: {"redis_at": link.at(server.address)})


@pytest.fixture(scope="module")
def postgres(keeper: Keeper, links: Links) -> Iterator[Far]:
    """Yield a PostgreSQL behind a link."""
    server = launch(keeper, Postgres)
    link = links.to(server.address)
    with fresh_database(server.address, f"outage_{uuid.uuid4().hex}") as url:
        yield Far(link, lambda: {"journal_url": link.at(url)})


@pytest.fixture(params=["kafka", "redis", "postgres"])
def far(request: pytest.FixtureRequest) -> Far:
    """Return each of the three in turn."""
    found: Far = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def stage(make_stage: MakeStage, far: Far) -> Stage:
    """Return a stage with the far server, and short limits for what does not answer."""
    return make_stage(journal={"timeout_s": 2}, **far.facts())


def test_a_link_that_fails_costs_nothing_but_time(stage: Stage, far: Far) -> None:
    with scene_on(stage) as scene:
        for _ in range(RESETS):
            with far.link.resetting():
                scene.load.await_tried(1)
            scene.load.await_tried(10)
        scene.resumes(within_s=RESUMES_WITHIN_S)
        with far.link.slow(LATENCY_MS):
            scene.load.await_tried(3)
            scene.resumes(within_s=RESUMES_WITHIN_S)
        with far.link.half_open():
            scene.load.await_tried(HALF_OPEN_REQUESTS)
        scene.resumes(within_s=RESUMES_WITHIN_S)
    scene.all_succeeded()


def test_a_lease_is_renewed_in_one_round_trip(postgres: Far) -> None:
    url = postgres.facts()["journal_url"]
    migrate(url)
    leases = Leases(url, group="g", worker_id="w")
    try:
        leases.register(5.0)
        with postgres.link.slow(LATENCY_MS):
            renewed = in_time(lambda: leases.renew(5.0), limit_s=2 * LATENCY_MS / 1000)
            assert renewed is not None
    finally:
        leases.close()
