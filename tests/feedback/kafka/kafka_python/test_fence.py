"""One writer of a name, on a real broker: who had it before can write no more."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from feedback.errors import KafkaUnavailable
from feedback.kafka.fencing import Fenced
from feedback.kafka.kafka_python.fence import KafkaPythonFence
from feedback.kafka.kafka_python.wire import KafkaWire
from feedback.kafka.outgoing import Outgoing, RecordTooLarge
from feedback.kafka.scan import KafkaScan
from feedback.settings.settings import KafkaSection
from onceward.servers.ports import HOST, free_port
from tests.stack import Servers

NAME = "one-writer"
MakeFence = Callable[..., KafkaPythonFence]


def always() -> None:
    """Let everything be sent."""


@pytest.fixture
def settings(servers: Servers) -> KafkaSection:
    """Return the settings of the broker."""
    return KafkaSection(bootstrap_servers=servers.kafka)


@pytest.fixture
def make_fence(settings: KafkaSection, group: str) -> Iterator[MakeFence]:
    """Yield a factory of fences of one name, each on connections of its own."""
    with ExitStack() as wires:

        def make() -> KafkaPythonFence:
            wire = KafkaWire(settings)
            wires.callback(wire.close)
            return KafkaPythonFence(wire, f"{NAME}-{group}")

        yield make


def values(settings: KafkaSection, topic: str, *, committed_only: bool) -> list[bytes | None]:
    """Return what a reader sees."""
    with KafkaScan(settings, committed_only=committed_only) as scan:
        pages = scan.pages(scan.spans([topic]))
        return [record.value for page in pages for record in page.records]


def record(value: bytes | None) -> Outgoing:
    return Outgoing("", None, b"key", value, (("name", b"value"), ("name", b"\xff")))


def test_the_last_holder_alone_writes_and_everybody_reads_it(
    make_fence: MakeFence, settings: KafkaSection, topic: Callable[..., str]
) -> None:
    name, first, second = topic(1), make_fence(), make_fence()
    first.take([(name, 0)])
    assert first.write(name, 0, [record(b"1"), record(None)], before_each=always) == [None, None]
    second.take([(name, 0)])
    # The second has written nothing yet: the marker alone keeps the first out.
    with pytest.raises(Fenced):
        first.write(name, 0, [record(b"late")], before_each=always)
    assert not first.is_held
    assert second.write(name, 0, [record(b"2")], before_each=always) == [None]
    for committed_only in (True, False):
        assert values(settings, name, committed_only=committed_only) == [b"1", None, b"2"]


def test_what_was_kept_out_may_take_it_back(
    make_fence: MakeFence, topic: Callable[..., str]
) -> None:
    name, first, second = topic(2), make_fence(), make_fence()
    for fence in (first, second, first):
        fence.take([(name, 0), (name, 1)])
    assert first.write(name, 1, [record(b"1")], before_each=always) == [None]
    with pytest.raises(Fenced):
        second.write(name, 1, [record(b"2")], before_each=always)


def test_a_record_that_is_too_large_stands_alone(
    make_fence: MakeFence, settings: KafkaSection, topic: Callable[..., str]
) -> None:
    name, fence = topic(1), make_fence()
    fence.take([(name, 0)])
    large = record(os.urandom(2_000_000))
    answers = fence.write(name, 0, [record(b"1"), large, record(b"2")], before_each=always)
    assert [type(one) for one in answers] == [type(None), RecordTooLarge, type(None)]
    assert values(settings, name, committed_only=False) == [b"1", b"2"]


def test_nothing_is_sent_after_the_word_before_it_fails(
    make_fence: MakeFence, settings: KafkaSection, topic: Callable[..., str]
) -> None:
    class Over(Exception):
        pass

    def is_over() -> None:
        raise Over

    name, fence = topic(1), make_fence()
    fence.take([(name, 0)])
    with pytest.raises(Over):
        fence.write(name, 0, [record(b"1")], before_each=is_over)
    assert values(settings, name, committed_only=False) == []
    assert fence.write(name, 0, [record(b"2")], before_each=always) == [None]


def test_what_was_not_taken_is_not_written(
    make_fence: MakeFence, topic: Callable[..., str]
) -> None:
    name, fence = topic(2), make_fence()
    fence.take([(name, 0)])
    with pytest.raises(Fenced):
        fence.write(name, 1, [record(b"1")], before_each=always)


def test_without_a_broker_it_says_so() -> None:
    wire = KafkaWire(KafkaSection(bootstrap_servers=f"{HOST}:{free_port()}"), timeout_s=0.5)
    with pytest.raises(KafkaUnavailable):
        KafkaPythonFence(wire, NAME).take([("topic", 0)])
    wire.close()
