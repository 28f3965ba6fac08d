"""Servers that go away from under a relay: it waits, then sends all of it, and parks nothing."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from kafka.admin import KafkaAdminClient, NewTopic
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from feedback.records.envelope import decode_headers
from onceward.servers.kafka import Broker
from onceward.servers.keeper import Keeper
from onceward.servers.redis import Redis
from producer_client import Client, outbox
from producer_client.outbox.relay import Relay
from tests.eventually import eventually
from tests.left_open import left_open
from tests.producer_client.conftest import MakeSettings
from tests.producer_client.outbox.conftest import relaying
from tests.producer_client.records import records_of
from tests.stack.postgres import Postgres
from tests.stack.restartable import Restartable, restartable

pytestmark = pytest.mark.waits

TOPIC = "outages"
# A busy machine notices late and resumes late.
LIMIT_S = 90.0
COUNT = 40


@pytest.fixture(scope="module")
def world() -> Iterator[dict[str, Restartable]]:
    """Yield three servers that these tests alone stop and start."""
    with ExitStack() as stack:
        stack.enter_context(left_open())
        keeper = stack.enter_context(Keeper())
        servers = {
            name: stack.enter_context(restartable(kind, keeper=keeper))
            for name, kind in (("kafka", Broker), ("redis", Redis), ("database", Postgres))
        }
        outbox.migrate(servers["database"].address)
        with KafkaAdminClient(bootstrap_servers=servers["kafka"].address) as admin:
            admin.create_topics([NewTopic(TOPIC, 2, 1)])
            admin.wait_for_topics([TOPIC])
        yield servers


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("away", ["kafka", "redis", "database"])
def test_an_outage_costs_time_and_nothing_else(
    world: dict[str, Restartable], make_settings: MakeSettings, away: str, left_open: None
) -> None:
    settings = make_settings(
        kafka={"bootstrap_servers": world["kafka"].address},
        redis={"url": world["redis"].address, "timeout_s": 1},
        outbox={"url": world["database"].address, "lease_s": 2, "timeout_s": 3},
        topic=TOPIC,
    )
    engine = create_engine(settings.outbox.url, poolclass=NullPool)
    names = [f"{away}-{number}" for number in range(COUNT)]

    def send(client: Client, some: list[str]) -> None:
        with engine.begin() as connection:
            for name in some:
                client.send(name, key=name[-1], request_id=name, connection=connection)

    with Client(settings) as client, relaying(settings) as relay:
        send(client, names[:10])
        _await(settings.kafka.bootstrap_servers, names[:10])
        if away == "database":
            world[away].stop()
            eventually(lambda: relay.missing, timeout_s=LIMIT_S)
            world[away].start()
            send(client, names[10:])
        else:
            world[away].kill()
            send(client, names[10:])
            # Kafka is only missed when it has not answered for a while.
            eventually(lambda: relay.missing or _waits(relay), timeout_s=LIMIT_S)
            world[away].start()
        _await(settings.kafka.bootstrap_servers, names)
        eventually(lambda: relay.missing is None, timeout_s=LIMIT_S)
    with engine.connect() as connection:
        states = connection.exec_driver_sql("SELECT DISTINCT state FROM onceward_outbox").scalars()
        assert set(states) == {"SENT"}


def _waits(relay: Relay) -> bool:
    return any(one.open_topics() for one in list(relay._flying))


def _await(kafka: str, names: list[str]) -> None:
    def are_there() -> bool:
        return {*names} <= {decode_headers(one).request_id for one in records_of(kafka, TOPIC)}

    eventually(are_there, timeout_s=LIMIT_S, interval_s=0.2, what="all requests in the topic")
