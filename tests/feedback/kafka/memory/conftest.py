"""A broker in memory, and members of one group."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from feedback.kafka.memory.broker import MemoryBroker
from feedback.kafka.memory.engine import memory_broker
from feedback.settings.settings import KafkaSection
from tests.feedback.kafka.engines.conftest import make_member as make_member


@pytest.fixture
def broker() -> Iterator[MemoryBroker]:
    """Yield a broker, for which no call waits for long."""
    with memory_broker(longest_wait_s=0.02) as opened:
        yield opened


@pytest.fixture
def settings(broker: MemoryBroker, group: str) -> KafkaSection:
    """Return settings that lead to it."""
    return KafkaSection(bootstrap_servers=broker.address, group=group)
