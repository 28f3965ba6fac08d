"""The rooms above the port notice no difference: a source reads from a broker in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from feedback.errors import KafkaUnavailable
from feedback.kafka import source as kafka_source
from feedback.kafka.memory.broker import MemoryBroker
from feedback.kafka.memory.rights import GuardedKind
from feedback.kafka.source import CommitFailed, KafkaSource
from feedback.logs import event_of
from feedback.settings.settings import KafkaSection
from tests.eventually import eventually

MakeSource = Callable[..., KafkaSource]
POLL_S = 0.002


@pytest.fixture
def make_source(settings: KafkaSection) -> Iterator[MakeSource]:
    """Yield a factory of sources of one group, closed at the end."""
    with ExitStack() as ends:

        def make(*topics: str) -> KafkaSource:
            made = KafkaSource(settings, topics)
            ends.callback(made.close)
            return made

        yield make


def read(source: KafkaSource, count: int) -> list[int]:
    """Poll until so many records came, and return their offsets."""
    found: list[int] = []

    def is_all() -> bool:
        found.extend(one.offset for one in source.poll(POLL_S, max_records=count - len(found)))
        return len(found) == count

    eventually(is_all, interval_s=0.0)
    return found


def test_a_source_reads_commits_and_hands_over(
    broker: MemoryBroker, make_source: MakeSource
) -> None:
    broker.make_topic("a", 2)
    for number in (0, 1):
        for _ in range(5):
            broker.append("a", b"v", partition=number)
    first = make_source("a")
    assert first.missing(["a", "b"]) == ["b"]
    assert sorted(read(first, 10)) == sorted([*range(5)] * 2)
    first.commit({("a", 0): 5, ("a", 1): 5})
    first.unclaimed = lambda partitions: dict.fromkeys(partitions, 3)
    second = make_source("a")

    def are_sharing() -> bool:
        second.poll(0.0, max_records=1), first.poll(0.0, max_records=1)
        return [len(one.assigned()) for one in (first, second)] == [1, 1]

    eventually(are_sharing, interval_s=0.0)
    (moved,) = second.assigned()
    assert moved in first.take_revoked()
    second.rewind({moved: 3})
    assert read(second, 2) == [3, 4]


def test_a_source_says_that_its_broker_is_away_and_goes_on_when_it_is_back(
    broker: MemoryBroker, make_source: MakeSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_source, "COORDINATOR_LIMIT_S", 0.0)
    broker.make_topic("a")
    broker.append("a", b"v")
    source = make_source("a")
    assert read(source, 1) == [0]
    with broker.down():
        with pytest.raises(KafkaUnavailable, match="refused"):
            source.poll(POLL_S, max_records=1)
        with pytest.raises(CommitFailed):
            source.commit({("a", 0): 1})
        assert source.is_away and not source.is_joined
    broker.append("a", b"v")
    assert read(source, 1) == [1]
    assert source.is_joined


def test_a_forbidden_topic_is_left_out_and_a_deleted_one_is_logged(
    broker: MemoryBroker, make_source: MakeSource, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for name in ("a", "b"):
        broker.make_topic(name)
        broker.append(name, b"v")
    broker.limit(GuardedKind.TOPIC, "b", "DESCRIBE")
    source = make_source("a", "b")
    assert read(source, 1) == [0]
    eventually(lambda: source.poll(POLL_S, max_records=1) == [] and source.refusals)
    assert "with Read" in source.refusals[0]
    broker.delete_topic("a")

    def is_logged(event: str) -> bool:
        source.poll(POLL_S, max_records=1)
        return event in {event_of(one) for one in caplog.records}

    eventually(lambda: is_logged("topic.gone"), interval_s=0.0)
    broker.make_topic("a")
    eventually(lambda: is_logged("topic.back"), interval_s=0.0)
