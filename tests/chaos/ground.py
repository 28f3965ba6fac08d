"""The servers under a row: those of the environment, and those of its own that it may hurt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum

from feedback.errors import NotAvailable
from onceward.servers.kafka import SOON_MISSED, Broker
from onceward.servers.keeper import Keeper
from onceward.servers.ports import HOST, free_port
from onceward.servers.redis import Redis
from tests.chaos.row import JournalKind, Own, Row
from tests.stack import Servers
from tests.stack.cluster import Cluster, cluster
from tests.stack.postgres import Postgres
from tests.stack.replication import Replicated, replicated
from tests.stack.restartable import Restartable, restartable
from tests.stack.toxiproxy import Link, Links


class Linked(StrEnum):
    """A server behind a link that may fail."""

    KAFKA = "kafka"
    REDIS = "redis"
    POSTGRES = "postgres"


@dataclass(slots=True)
class Ground:
    """Where the servers of a row are, and a handle on each that is its own."""

    servers: Servers
    links: dict[Linked, Link] = field(default_factory=dict)
    own_redis: Restartable | None = None
    own_postgres: Restartable | None = None
    own_kafka: Restartable | None = None
    own_cluster: Cluster | None = None
    own_pair: Replicated | None = None

    @property
    def redis(self) -> Restartable:
        """The row's own Redis."""
        assert self.own_redis is not None, "the row does not say that it has one"
        return self.own_redis

    @property
    def postgres(self) -> Restartable:
        """The row's own PostgreSQL."""
        assert self.own_postgres is not None, "the row does not say that it has one"
        return self.own_postgres

    @property
    def kafka(self) -> Restartable:
        """The row's own broker."""
        assert self.own_kafka is not None, "the row does not say that it has one"
        return self.own_kafka

    @property
    def pair(self) -> Replicated:
        """The row's own primary and standby."""
        assert self.own_pair is not None, "the row does not say that it has one"
        return self.own_pair

    @property
    def cluster(self) -> Cluster:
        """The row's own three brokers."""
        assert self.own_cluster is not None, "the row does not say that it has one"
        return self.own_cluster

    @property
    def replication(self) -> int:
        """How many brokers have each record."""
        return 1 if self.own_cluster is None else len(self.own_cluster.brokers)


@contextmanager
def ground_of(row: Row, given: Servers, keeper: Keeper) -> Iterator[Ground]:
    """Start the row's own servers beside those given.

    Raises:
        NotAvailable: a server is neither given nor the row's own.
        StackError: one did not start.
    """
    ground = Ground(given)
    with ExitStack() as ends:
        _start_own(row, ground, keeper, ends)
        _require(ground.servers, row)
        if Own.LINKS in row.own:
            _link(row, ground, keeper, ends)
        yield ground


def _start_own(row: Row, ground: Ground, keeper: Keeper, ends: ExitStack) -> None:
    if Own.REDIS in row.own or Own.KEPT_REDIS in row.own:
        keeps = Own.KEPT_REDIS in row.own
        redis = restartable(lambda: Redis(keeps_data=keeps), keeper=keeper)
        ground.own_redis = ends.enter_context(redis)
        ground.servers = replace(ground.servers, redis=ground.own_redis.address)
    if Own.POSTGRES in row.own:
        postgres = restartable(lambda: Postgres(settings=row.postgres), keeper=keeper)
        ground.own_postgres = ends.enter_context(postgres)
        ground.servers = replace(ground.servers, postgres=ground.own_postgres.address)
    if Own.REPLICATED in row.own:
        ground.own_pair = ends.enter_context(replicated())
        ground.servers = replace(ground.servers, postgres=ground.own_pair.url())
    if Own.KAFKA in row.own:
        broker = restartable(lambda: Broker(settings=SOON_MISSED), keeper=keeper)
        ground.own_kafka = ends.enter_context(broker)
        ground.servers = replace(ground.servers, kafka=ground.own_kafka.address)
    if Own.CLUSTER in row.own:
        ground.own_cluster = ends.enter_context(cluster())
        ground.servers = replace(ground.servers, kafka=ground.own_cluster.address)


def _link(row: Row, ground: Ground, keeper: Keeper, ends: ExitStack) -> None:
    """Put a link before each server; a broker must tell its clients of the link's address."""
    links = Links(keeper)
    port = free_port()
    kafka = links.to(f"{HOST}:{port}")
    broker = restartable(lambda: Broker(port=port, advertised=kafka.address), keeper=keeper)
    ground.own_kafka = ends.enter_context(broker)
    redis = links.to(ground.servers.redis)
    ground.links = {Linked.KAFKA: kafka, Linked.REDIS: redis}
    if row.journal is JournalKind.POSTGRES:
        ground.links[Linked.POSTGRES] = links.to(ground.servers.postgres)
    redis_url = redis.at(ground.servers.redis)
    ground.servers = replace(ground.servers, kafka=kafka.address, redis=redis_url)


def _require(servers: Servers, row: Row) -> None:
    needed = {"redis": servers.redis}
    if Own.LINKS not in row.own:
        needed["kafka"] = servers.kafka
    if row.journal is JournalKind.POSTGRES:
        needed["postgres"] = servers.postgres
    missing = [name for name, address in needed.items() if not address]
    if missing:
        raise NotAvailable(
            f"the environment names no {' and no '.join(missing)}: run `make chaos`, "
            "or `python -m tests.stack -- python -m tests.chaos`"
        )
