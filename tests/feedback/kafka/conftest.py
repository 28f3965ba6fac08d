"""Each engine in turn, on the real broker; `engines/memory` has another one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka import KafkaProducer

from feedback.settings.settings import KafkaSection
from onceward.servers.ports import HOST, free_port
from tests.feedback.kafka.engines.grounds import Ground, Produce, RealGround, settings_at
from tests.feedback.kafka.engines.members import ENGINES
from tests.left_open import left_open
from tests.stack import Servers


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """Return the name of an engine."""
    return str(request.param)


@pytest.fixture
def ground(servers: Servers) -> Ground:
    """Return the broker that all tests share."""
    return RealGround(servers.kafka)


@pytest.fixture
def nobody(engine: str) -> KafkaSection:
    """Return settings for a broker that never was there."""
    given = {"bootstrap_servers": f"{HOST}:{free_port()}", "client": engine}
    return KafkaSection.model_validate(given)


@pytest.fixture
def settings(ground: Ground, engine: str, group: str) -> KafkaSection:
    """Return settings for the shared broker."""
    return settings_at(ground.address, engine, group)


@pytest.fixture
def produce(servers: Servers) -> Iterator[Produce]:
    """Yield a function that appends a record to partition 0 and returns its offset."""
    producer = KafkaProducer(bootstrap_servers=servers.kafka)

    def append(topic: str, value: bytes | None, key: bytes | None = None, **given: object) -> int:
        stored = producer.send(topic, key=key, value=value, partition=0, **given).get(timeout=60)
        return int(stored.offset)

    yield append
    producer.close()


@pytest.fixture(name="left_open")
def sockets_left_open() -> Iterator[None]:
    """Let kafka-python leave the sockets of failed connections to the garbage collector."""
    with left_open():
        yield
