"""Records of foreign transactions: what was aborted does not exist, what is open not yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from feedback.kafka.kafka_python.wire import KafkaWire
from feedback.kafka.reader import RecordReader
from feedback.kafka.source import KafkaSource
from feedback.settings.settings import KafkaSection
from feedback.status import State
from tests.consumer.conftest import MakeStage
from tests.eventually import eventually
from tests.stack import Servers
from tests.transactions import Transactions

TIMEOUT_S = 60.0


@pytest.fixture
def foreign(servers: Servers) -> Iterator[Transactions]:
    """Yield a producer that writes within transactions."""
    with Transactions(servers.kafka) as one:
        yield one


@pytest.fixture
def kafka(servers: Servers, group: str) -> KafkaSection:
    """Return where the broker is, and a group of its own."""
    return KafkaSection(bootstrap_servers=servers.kafka, group=group)


def test_a_worker_runs_what_was_committed_and_nothing_that_was_aborted_or_is_open(
    make_stage: MakeStage, foreign: Transactions
) -> None:
    stage = make_stage(partitions=1)
    name = stage.topics["work"]
    for request_id, end in (("aborted", foreign.abort), ("committed", foreign.commit)):
        foreign.write(name, b"{}", headers=[("onceward-request-id", request_id.encode())])
        end()
    foreign.write(name, b"{}", headers=[("onceward-request-id", b"open")])
    stage.start()
    assert stage.final("committed").state is State.SUCCEEDED
    # An end of the partition beyond what may be read holds nothing up that is committed.
    foreign.commit()
    assert stage.final("open").state is State.SUCCEEDED
    assert [one["request_id"] for one in stage.runs()] == ["committed", "open"]
    assert stage.row("aborted") is None


def test_a_partition_is_not_read_to_its_end_while_a_transaction_is_open_in_it(
    topic: Callable[..., str], kafka: KafkaSection, foreign: Transactions
) -> None:
    name = topic(1)
    foreign.write(name, b"1", b"2")
    foreign.commit()
    foreign.write(name, b"3")
    read: list[bytes | None] = []
    with closing(KafkaSource(kafka, [name])) as source:

        def read_to_its_end() -> bool:
            read.extend(one.value for one in source.poll(0.1, max_records=10))
            return source.is_read((name, 0))

        eventually(lambda: (read_to_its_end(), len(read))[1] == 2, timeout_s=TIMEOUT_S)
        assert not read_to_its_end()
        foreign.abort()
        eventually(read_to_its_end, timeout_s=TIMEOUT_S)
    assert read == [b"1", b"2"]


def test_the_end_that_a_registry_waits_for_is_behind_an_open_transaction(
    topic: Callable[..., str], kafka: KafkaSection, foreign: Transactions
) -> None:
    name = topic(1)
    foreign.write(name, b"1", b"2", b"3")
    with closing(KafkaWire(kafka)) as wire:
        assert wire.end(name, 0) == 3
        foreign.commit()
        eventually(lambda: wire.end(name, 0) == 4, timeout_s=TIMEOUT_S)


def test_a_payload_is_read_again_where_it_was_committed_only(
    topic: Callable[..., str], kafka: KafkaSection, foreign: Transactions
) -> None:
    name = topic(1)
    for value, end in ((b"aborted", foreign.abort), (b"committed", foreign.commit)):
        foreign.write(name, value)
        end()
    with RecordReader(kafka) as reader:
        assert reader.read(name, 0, 0, timeout_s=2.0) is None
        found = reader.read(name, 0, 2, timeout_s=TIMEOUT_S)
        assert found is not None
        assert found.value == b"committed"
