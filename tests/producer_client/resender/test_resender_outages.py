"""The resender while servers are away: it says so once, ends for none, and goes on by itself."""

import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient, NewTopic

from feedback.clock import epoch_ms
from feedback.redis.server import connect
from feedback.settings.settings import Settings, load
from feedback.status import State
from onceward.servers.kafka import Broker
from onceward.servers.redis import Redis
from producer_client import Client
from tests.eventually import eventually
from tests.producer_client.acting import Worker
from tests.producer_client.conftest import MakeSettings
from tests.producer_client.records import records_of
from tests.producer_client.resenders import ClientProgram, look_now, process, running
from tests.producer_client.waits import ends_in_vain
from tests.stack import Servers
from tests.stack.restartable import Restartable, restartable
from tests.standstill import standing_still

TOPIC = "outages"
BACK_S = 60.0
# A broker takes a while to start, and much longer on a machine that is busy.
pytestmark = [pytest.mark.waits, pytest.mark.long, pytest.mark.timeout(300)]


@pytest.fixture
def redis() -> Iterator[Restartable]:
    """Yield a Redis that may fail."""
    with restartable(Redis) as server:
        yield server


@pytest.fixture(scope="module")
def kafka() -> Iterator[Restartable]:
    """Yield a broker that may fail, with one topic."""
    with restartable(Broker) as server:
        _create(server.address, TOPIC)
        yield server


def _create(where: str, topic: str) -> None:
    with KafkaAdminClient(bootstrap_servers=where) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
        admin.wait_for_topics([topic])


def _settings(group: str, *, kafka: str, redis: str, topic: str = TOPIC) -> Settings:
    return load(
        None,
        kafka={"bootstrap_servers": kafka, "group": group},
        redis={"url": redis, "timeout_s": 1, "heartbeat_ttl_s": 1},
        client={"topic": topic, "resend_after_s": 300, "send_timeout_s": 2},
    )


def _variables(settings: Settings, environment: dict[str, str]) -> dict[str, str]:
    return environment | {
        "ONCEWARD_KAFKA__BOOTSTRAP_SERVERS": settings.kafka.bootstrap_servers,
        "ONCEWARD_REDIS__URL": settings.redis.url,
        "ONCEWARD_REDIS__TIMEOUT_S": "1",
        "ONCEWARD_REDIS__HEARTBEAT_TTL_S": "1",
        "ONCEWARD_CLIENT__RESEND_AFTER_S": "300",
        "ONCEWARD_CLIENT__SEND_TIMEOUT_S": "2",
    }


def _lose_one(client: Client, settings: Settings, request_id: str) -> None:
    """Send a request and have it accepted by a worker that is dead."""
    client.send(b"v", request_id=request_id)
    store = connect(settings.redis)
    Worker(store, settings.kafka.group, settings.redis).accept(request_id)
    store.close()


def _is_resent(client: Client, request_id: str) -> bool:
    status = client.status(request_id)
    return status.state is State.PENDING and status.attempt > 1


def _said(resender: ClientProgram, request_id: str) -> bool:
    return any(line["request_id"] == request_id for line in resender.printed())


@pytest.mark.usefixtures("left_open")
def test_redis_that_comes_back_empty_is_worked_with_again(
    servers: Servers, redis: Restartable, group: str, environment: dict[str, str], tmp_path: Path
) -> None:
    topic = f"topic-{group}"
    _create(servers.kafka, topic)
    settings = _settings(group, kafka=servers.kafka, redis=redis.address, topic=topic)
    with process(_variables(settings, environment), tmp_path) as resender:
        with Client(settings) as client:
            _lose_one(client, settings, "before")
            eventually(lambda: _said(resender, "before"), timeout_s=BACK_S)
            with redis.down(empty=True):
                resender.told("redis.away")
            resender.told("redis.back")
            _lose_one(client, settings, "after")
            eventually(lambda: _said(resender, "after"), timeout_s=BACK_S)
            with redis.paused():
                eventually(lambda: len(resender.events("redis.away")) == 2, timeout_s=BACK_S)
            _lose_one(client, settings, "later")
            eventually(lambda: _said(resender, "later"), timeout_s=BACK_S)
            _lose_one_while_redis_is_full(client, settings, resender)
        assert len(resender.events("redis.away")) == 3
        assert len(resender.events("redis.back")) == 3
        resender.send(signal.SIGTERM)
        assert resender.wait() == 0


def _lose_one_while_redis_is_full(
    client: Client, settings: Settings, resender: ClientProgram
) -> None:
    client.send(b"v", request_id="full")
    redis = connect(settings.redis)
    redis.config_set("maxmemory-policy", "noeviction")
    redis.hset(client.store.request_key("full"), mapping={"status": "ACCEPTED", "worker": ""})
    redis.config_set("maxmemory", 1)
    eventually(lambda: len(resender.events("redis.away")) == 3, timeout_s=BACK_S)
    redis.config_set("maxmemory", 0)
    redis.close()
    eventually(lambda: _said(resender, "full"), timeout_s=BACK_S)


@pytest.mark.usefixtures("left_open")
def test_kafka_away_for_seconds_costs_no_request_and_no_restart(
    servers: Servers, kafka: Restartable, group: str, environment: dict[str, str], tmp_path: Path
) -> None:
    settings = _settings(group, kafka=kafka.address, redis=servers.redis)
    with (
        process(_variables(settings, environment), tmp_path) as resender,
        Client(settings) as client,
    ):
        _lose_one(client, settings, "before")
        eventually(lambda: _said(resender, "before"), timeout_s=BACK_S)
        ids = [f"during{n}" for n in range(20)]
        for one in ids:
            client.send(b"v", request_id=one)
        with kafka.down():
            down_s = time.monotonic()
            store = connect(settings.redis)
            for one in ids:
                Worker(store, settings.kafka.group, settings.redis).accept(one)
            store.close()
            resender.told("topic.away")
            eventually(lambda: time.monotonic() - down_s > 5, timeout_s=BACK_S)
            assert not any(_said(resender, one) for one in ids)
        eventually(lambda: all(_said(resender, one) for one in ids), timeout_s=BACK_S)
        resender.told("topic.back")
        assert len(resender.events("topic.away")) == 1
        assert all(_is_resent(client, one) for one in ids)
    assert len(records_of(kafka.address, TOPIC)) >= 42


@pytest.mark.usefixtures("left_open")
def test_it_starts_without_servers_ends_in_time_and_works_when_they_come(
    servers: Servers, redis: Restartable, group: str, environment: dict[str, str], tmp_path: Path
) -> None:
    topic = f"topic-{group}"
    _create(servers.kafka, topic)
    settings = _settings(group, kafka=servers.kafka, redis=redis.address, topic=topic)
    redis.kill()
    with process(_variables(settings, environment), tmp_path) as resender:
        resender.told("redis.away")
        redis.start()
        resender.told("redis.back")
        with Client(settings) as client:
            _lose_one(client, settings, "r1")
            eventually(lambda: _said(resender, "r1"), timeout_s=BACK_S)
        with redis.paused():
            eventually(lambda: len(resender.events("redis.away")) == 2, timeout_s=BACK_S)
            with standing_still() as stood:
                began_s = time.monotonic()
                resender.send(signal.SIGTERM)
                assert resender.wait() == 0
                took_s = time.monotonic() - began_s
            assert took_s < 6 + stood.total_s


def test_of_what_an_older_redis_brings_back_only_what_kafka_has_is_sent_by_itself(
    make_settings: MakeSettings,
) -> None:
    with restartable(lambda: Redis(keeps_data=True)) as redis:
        settings = make_settings(redis={"url": redis.address}, resend_after_s=0.2)
        with Client(settings) as client:
            store = client.store
            client.send(b"v", request_id="sent")
            taken_back = client.send(b"taken back", request_id="taken-back")
            # As if this were a later sending of it, which failed: Kafka has no record of that.
            deadline_at = taken_back.status().deadline_at or 0
            store.redis.hset(store.request_key("taken-back"), "deadline_at", deadline_at + 1)
            sent_twice = client.send(b"v", request_id="sent-twice")
            client.resend("sent-twice", sent_twice.payload, known=sent_twice.status())
            # A clean end keeps all that was written, as a snapshot does of an earlier time.
            redis.stop()
            redis.start()
            later = client.send(b"v", request_id="later")
            for one in ("taken-back", "sent", "sent-twice", "later"):
                look_now(store, one)
            with running(settings) as resender:
                resender.sends(4)
                looks_at = partial(store.redis.zscore, store.deadlines_key, "taken-back")
                eventually(lambda: (looks_at() or 0) > epoch_ms(), timeout_s=BACK_S)
                assert set(resender.ids()) == {"sent", "sent-twice", "later"}
                assert later.status().attempt > 1
                assert taken_back.status().attempt == 1
                ends_in_vain(taken_back.wait, timeout_s=2)
            assert taken_back.status().attempt > 1
