"""Single records, read again by the engine in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from feedback.kafka.confluent import anew
from feedback.kafka.confluent.anew import RecordsAnew
from feedback.kafka.engines import engine_of
from feedback.kafka.errors import KafkaFault
from feedback.kafka.memory.broker import MemoryBroker
from feedback.kafka.memory.engine import memory_broker
from feedback.kafka.memory.transaction import MemoryTransaction, TransactionState
from feedback.settings.settings import KafkaSection


@pytest.fixture
def broker() -> Iterator[MemoryBroker]:
    """Yield a broker in memory."""
    with memory_broker(longest_wait_s=0.02) as opened:
        opened.make_topic("t", 2)
        yield opened


@pytest.fixture
def records(broker: MemoryBroker) -> Iterator[RecordsAnew]:
    """Yield what reads records anew there."""
    settings = KafkaSection(bootstrap_servers=broker.address)
    made = RecordsAnew(engine_of(settings), settings)
    with closing(made):
        yield made


def test_each_is_found_and_what_is_gone_is_none(broker: MemoryBroker, records: RecordsAnew) -> None:
    for number in range(4):
        broker.append("t", b"%d" % number)
    aborted = MemoryTransaction()
    broker.append("t", b"never was", transaction=aborted)
    broker.end_transaction(aborted, TransactionState.ABORTED)
    broker.append("t", b"last")
    broker.append("t", b"other", partition=1)
    broker.delete_records(("t", 0), 2)
    found = [records.read("t", 0, offset) for offset in (1, 2, 3, 4)]
    assert [None if one is None else one.value for one in found] == [None, b"2", b"3", None]
    other = records.read("t", 1, 0)
    assert other is not None and other.value == b"other"


def test_one_that_does_not_come_in_time_is_a_fault_and_so_is_the_next_till_the_end(
    broker: MemoryBroker, records: RecordsAnew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anew, "ANSWER_S", 0.02)
    broker.append("t", b"there")
    with pytest.raises(KafkaFault, match="does not give the record t-0 at 1"):
        records.read("t", 0, 1)
    with pytest.raises(KafkaFault, match="in time"):
        records.read("t", 0, 0)
    records.close()
    assert records.read("t", 0, 0) is not None
