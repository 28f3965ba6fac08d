"""What a producer makes of the ends that librdkafka tells of its tries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from feedback.kafka.confluent import producer as producer_module
from feedback.kafka.confluent.producer import ConfluentProducer
from feedback.kafka.outgoing import NotAcknowledged, Outgoing, RecordRefused, RecordTooLarge
from feedback.settings.settings import KafkaSection

RECORD = Outgoing("t", 0, b"k", b"v", ())
LOST = KafkaError(KafkaError._TRANSPORT)
LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
REFUSED = KafkaError(KafkaError.INVALID_RECORD)


class FakeProducer:
    """Ends each try within the next flush, as a test wants it.

    Attributes:
        ends: the error of each try, or None.
        takes_s: how long each try takes; 0 where nothing is said.
        now_s: the time.
    """

    def __init__(self, properties: dict[str, Any]) -> None:
        assert properties["retries"] == 0
        assert properties["retry.backoff.ms"] == properties["retry.backoff.max.ms"] == 1000
        self.ends: list[KafkaError | None] = []
        self.takes_s: list[float] = []
        self.now_s = 100.0
        self.is_full = False
        self._waiting: list[Callable[[Any, Any], None]] = []

    def list_topics(self, *_: str, **__: float) -> SimpleNamespace:
        """Say that there is one topic, of one partition."""
        return SimpleNamespace(topics={"t": SimpleNamespace(error=None, partitions={0: None})})

    def produce(self, *_: str, on_delivery: Callable[[Any, Any], None], **__: object) -> None:
        """Take a record."""
        if self.is_full:
            raise BufferError("Local: Queue full")
        self._waiting.append(on_delivery)

    def flush(self, timeout_s: float) -> None:
        """End all tries."""
        assert timeout_s >= 0, "librdkafka would wait for ever"
        while self._waiting:
            self.now_s += self.takes_s.pop(0) if self.takes_s else 0.0
            self._waiting.pop(0)(self.ends.pop(0), None)

    def poll(self, _: float) -> None:
        """Let time pass."""

    def purge(self, **_: bool) -> None:
        """Forget what waits."""


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> ConfluentProducer:
    """Return a producer of the fake one."""
    monkeypatch.setattr(producer_module, "Producer", FakeProducer)
    made = ConfluentProducer(KafkaSection(), 60.0)
    library: Any = made._producer
    monkeypatch.setattr(producer_module, "monotonic_s", lambda: library.now_s)
    return made


def ended(
    producer: ConfluentProducer, *ends: KafkaError | None, takes_s: Sequence[float] = ()
) -> object:
    """Return the result of a record whose tries end so, and take so long."""
    library: Any = producer._producer
    library.ends, library.takes_s = [*ends], [*takes_s]
    sent = producer.send(RECORD, 0)
    producer.flush(60.0)
    assert library.ends == []
    return sent.result(0.0)


@pytest.mark.parametrize(
    "passing",
    [
        KafkaError._TRANSPORT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.NOT_LEADER_FOR_PARTITION,
    ],
)
def test_a_try_that_a_broker_may_take_in_a_moment_is_repeated(
    producer: ConfluentProducer, passing: int
) -> None:
    assert ended(producer, KafkaError(passing), KafkaError(passing), None) is None


def test_a_refusal_counts_at_the_first_try_alone(producer: ConfluentProducer) -> None:
    assert type(ended(producer, REFUSED)) is RecordRefused
    assert type(ended(producer, LOST, REFUSED)) is NotAcknowledged


def test_of_two_that_were_too_large_together_one_that_may_be_there_is_not_refused(
    producer: ConfluentProducer,
) -> None:
    assert type(ended(producer, LOST, LARGE, LARGE)) is NotAcknowledged


def test_a_refusal_as_late_as_a_try_of_librdkafka_itself_says_nothing_of_the_first(
    producer: ConfluentProducer,
) -> None:
    # A resigning leader stores it, and says that it is no leader: of that nothing is heard here.
    assert type(ended(producer, REFUSED, takes_s=[0.8])) is NotAcknowledged
    assert type(ended(producer, LARGE, LARGE, takes_s=[0.8, 0.1])) is NotAcknowledged
    assert type(ended(producer, LARGE, LARGE, takes_s=[0.1, 0.8])) is NotAcknowledged
    assert type(ended(producer, REFUSED, takes_s=[0.7])) is RecordRefused
    assert type(ended(producer, LARGE, LARGE, takes_s=[0.7, 0.7])) is RecordTooLarge


def test_a_queue_that_is_full_refuses_no_record_for_good(producer: ConfluentProducer) -> None:
    library: Any = producer._producer
    library.is_full = True
    with pytest.raises(NotAcknowledged, match="Queue full"):
        producer.send(RECORD, 0)
