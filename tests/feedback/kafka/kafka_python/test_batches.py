"""Which offsets hold no committed records, on a real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient

from feedback.errors import KafkaUnavailable
from feedback.kafka.kafka_python.batches import silent
from feedback.kafka.kafka_python.wire import KafkaWire
from feedback.settings.settings import KafkaSection
from tests.stack import Servers
from tests.transactions import Transactions

TOGETHER = 24


@pytest.fixture
def wire(servers: Servers) -> Iterator[KafkaWire]:
    """Yield a connection."""
    made = KafkaWire(KafkaSection(bootstrap_servers=servers.kafka, group="unused"))
    yield made
    made.close()


def test_marks_of_transactions_that_end_together_are_silent_and_their_records_are_not(
    servers: Servers, topic: Callable[..., str], wire: KafkaWire
) -> None:
    name = topic(1)
    with ExitStack() as ends:
        every = [ends.enter_context(Transactions(servers.kafka)) for _ in range(TOGETHER)]
        for one in every:
            one.write(name, b"{}")
        for number, one in enumerate(every):
            (one.abort if number == 0 else one.commit)()
    # The first was aborted: its record and all marks.
    assert silent(wire, name, 0, 0, 100) == [(0, 1), (TOGETHER, 2 * TOGETHER)]
    assert silent(wire, name, 0, TOGETHER + 2, TOGETHER + 5) == [(TOGETHER + 2, TOGETHER + 5)]


def test_what_was_committed_after_an_abort_of_the_same_producer_is_not_silent(
    servers: Servers, topic: Callable[..., str], wire: KafkaWire
) -> None:
    name = topic(1)
    with Transactions(servers.kafka) as foreign:
        foreign.write(name, b"1", b"2")
        foreign.abort()
        foreign.write(name, b"3")
        foreign.commit()
    assert silent(wire, name, 0, 0, 5) == [(0, 3), (4, 5)]


def test_plain_records_are_never_silent_and_what_is_gone_is_told(
    servers: Servers, topic: Callable[..., str], wire: KafkaWire
) -> None:
    name = topic(1)
    producer = KafkaProducer(bootstrap_servers=servers.kafka)
    for _ in range(3):
        producer.send(name, b"{}", partition=0).get(timeout=60)
    producer.close()
    assert silent(wire, name, 0, 0, 3) == []
    with KafkaAdminClient(bootstrap_servers=servers.kafka) as admin:
        admin.delete_records({TopicPartition(name, 0): 2})
    with pytest.raises(KafkaUnavailable, match="OffsetOutOfRange"):
        silent(wire, name, 0, 0, 3)
