"""A broker in memory, and members of one group."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from feedback.kafka.memory.broker import MemoryBroker
from feedback.kafka.memory.engine import memory_broker
from feedback.settings.settings import KafkaSection
from tests.feedback.kafka.engines.members import MakeMember, Told


@pytest.fixture
def broker() -> Iterator[MemoryBroker]:
    """Yield a broker, for which no call waits for long."""
    with memory_broker(longest_wait_s=0.02) as opened:
        yield opened


@pytest.fixture
def settings(broker: MemoryBroker, group: str) -> KafkaSection:
    """Return settings that lead to it."""
    return KafkaSection(bootstrap_servers=broker.address, group=group)


@pytest.fixture
def make_member(settings: KafkaSection) -> Iterator[MakeMember]:
    """Yield a factory of members, closed at the end; settings are the named ones, changed."""
    with ExitStack() as ends:

        def make(*topics: str, **changed: object) -> Told:
            told = Told(settings.model_copy(update=changed), *topics)
            ends.callback(told.close)
            return told

        yield make
