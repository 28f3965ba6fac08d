"""One writer of a name, whatever engine keeps it: an earlier writer can write no more."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from feedback.kafka.engines import engine_of
from feedback.kafka.fencing import Fence, Fenced
from feedback.kafka.outgoing import Outgoing, RecordTooLarge
from feedback.kafka.scan import KafkaScan
from feedback.settings.settings import KafkaSection

# Both libraries have the same.
pytestmark = pytest.mark.parametrize("engine", ["kafka-python"])

NAME = "one-writer"
MakeFence = Callable[..., Fence]


def always() -> None:
    """Let everything be sent."""


@pytest.fixture
def make_fence(settings: KafkaSection, group: str) -> Iterator[MakeFence]:
    """Yield a factory of fences of one name, each on connections of its own."""
    with ExitStack() as ends:

        def make() -> Fence:
            fences = engine_of(settings).fences(settings)
            ends.callback(fences.close)
            return fences.fence(f"{NAME}-{group}")

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


def test_the_end_is_behind_all_records_and_each_taking_costs_one_offset(
    make_fence: MakeFence, settings: KafkaSection, topic: Callable[..., str]
) -> None:
    name, fence = topic(2), make_fence()
    fences = engine_of(settings).fences(settings)
    fence.take([(name, 0)])
    assert fence.write(name, 0, [record(b"1"), record(b"2")], before_each=always) == [None, None]
    assert (fences.end(name, 0), fences.end(name, 1)) == (3, 0)
    fences.close()
