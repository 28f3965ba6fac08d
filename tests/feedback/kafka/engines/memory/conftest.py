"""Brokers in memory, in the place of the real ones."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from feedback.kafka import reader, scan
from feedback.kafka.memory.broker import MemoryBroker
from feedback.kafka.memory.engine import memory_broker
from feedback.settings.settings import KafkaSection
from tests.feedback.kafka.engines import members, test_questions_away, test_reader
from tests.feedback.kafka.engines.grounds import Ground, MemoryGround, Produce
from tests.feedback.kafka.engines.guarded import GuardedGround, GuardedMemory

# Enough for a broker that comes back at once, and little for each call that waits in vain.
LONGEST_WAIT_S = 0.02
POLL_S = 0.005


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an idle poll end soon: here nothing is under way that it could wait for."""
    for module in (members, test_reader, test_questions_away, scan):
        monkeypatch.setattr(module, "POLL_S", POLL_S)
    monkeypatch.setattr(reader, "SILENCE_S", POLL_S)


@pytest.fixture
def engine() -> str:
    """Return the setting's default: the address chooses."""
    return "auto"


@pytest.fixture
def broker() -> Iterator[MemoryBroker]:
    """Yield a broker in memory."""
    with memory_broker(longest_wait_s=LONGEST_WAIT_S) as opened:
        yield opened


@pytest.fixture
def ground(broker: MemoryBroker) -> Ground:
    """Return it."""
    return MemoryGround(broker)


@pytest.fixture
def produce(broker: MemoryBroker) -> Produce:
    """Return a function that appends a record to partition 0 and returns its offset."""

    def append(topic: str, value: bytes | None, key: bytes | None = None, **given: Any) -> int:
        return broker.append(topic, value, key=key, **given).offset

    return append


@pytest.fixture
def guarded() -> Iterator[GuardedGround]:
    """Yield a broker in memory whose user has no right but those that a test gives."""
    with memory_broker(allows_all=False, longest_wait_s=LONGEST_WAIT_S) as broker:
        yield GuardedMemory(broker)


@pytest.fixture
def mortal(ground: Ground) -> Ground:
    """Return the same: no other test uses it."""
    return ground


@pytest.fixture
def nobody() -> Iterator[KafkaSection]:
    """Yield settings for a broker that never was there."""
    with memory_broker(longest_wait_s=LONGEST_WAIT_S) as broker, broker.down():
        yield KafkaSection(bootstrap_servers=broker.address)


@pytest.fixture
def topic(broker: MemoryBroker) -> Callable[..., str]:
    """Return a factory `topic(partitions=4)` of new topics."""

    def create(
        partitions: int = 4, *, name: str = "", configs: Mapping[str, str] | None = None
    ) -> str:
        name = name or f"topic-{uuid.uuid4().hex}"
        broker.make_topic(name, partitions, configs=configs)
        return name

    return create
