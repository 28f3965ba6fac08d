"""A send in which a signal handler raises an error of a kind that the libraries raise as well."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from confluent_kafka import KafkaError as LibrdkafkaError
from confluent_kafka import KafkaException
from kafka.errors import InvalidRecordError, KafkaError
from kafka.producer.future import FutureRecordMetadata
from kafka.producer.record_accumulator import RecordAccumulator

from feedback.kafka.send_errors import RecordNotSent, RecordUnknown
from feedback.kafka.senders import open_sender
from feedback.kafka.sending import KafkaSender
from feedback.settings.settings import KafkaSection
from tests.feedback.kafka.engines.sends import LIMIT_BYTES, values
from tests.kit.interrupts import struck_everywhere

# The functions between the caller and the library's own memory.
STEPS = {
    "KafkaPythonSender.send",
    "KafkaProducer.send",
    "RecordAccumulator.append",
    "_OfferedBatch.try_append",
    "ProducerBatch.try_append",
    "ConfluentSender.send",
    "ConfluentSender.send.<locals>.give",
    "BoundedSends.hand_over",
    "SendingConnection.hand_over",
}


class FatalException(KafkaException):
    """As librdkafka raises it."""

    def __init__(self, _: object) -> None:
        super().__init__(LibrdkafkaError(LibrdkafkaError._FATAL))


KINDS = [ValueError, TypeError, KeyError, RuntimeError, BufferError, KafkaError, FatalException]

pytestmark = [pytest.mark.waits, pytest.mark.usefixtures("left_open")]


@pytest.fixture
def sender(settings: KafkaSection) -> Iterator[KafkaSender]:
    """Yield a sender."""
    made = open_sender(settings, send_timeout_s=20.0, max_request_bytes=LIMIT_BYTES)
    yield made
    made.close()


def _free(sender: Any) -> None:
    """Let go of the lock that a handler may leave held, which is not the matter here."""
    if (connection := getattr(sender, "_connection", None)) is not None:
        connection._changed.acquire(timeout=0.2)
        connection._changed.release()


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_that_kafka_has_is_not_told_as_not_sent_wherever_a_handler_raises(
    kind: type[Exception],
    sender: KafkaSender,
    settings: KafkaSection,
    topic: Callable[..., str],
) -> None:
    name, numbers = topic(1), count()
    sender.send(name, key=b"k", value=b"first", headers=[]).result()
    value = b""

    def send() -> None:
        nonlocal value
        value = b"%d" % next(numbers)
        sender.send(name, key=b"k", value=value, headers=[("h", b"1")])

    told: dict[bytes, tuple[str, BaseException | None]] = {}
    for place, error in struck_everywhere(send, kind, within=STEPS):
        told[value] = place, error
        _free(sender)
    sender.close()
    there = set(values(settings, name))
    lies = [place for one, (place, error) in told.items() if _is_no(error) and one in there]
    assert lies == []
    assert any(type(error) is kind for one, (_, error) in told.items() if one in there)


def _is_no(error: BaseException | None) -> bool:
    return isinstance(error, RecordNotSent)


def _raise(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize("engine", ["kafka-python"], indirect=True)
@pytest.mark.parametrize("kind", [ValueError, RuntimeError])
def test_an_error_of_a_handler_of_a_signal_reaches_its_caller_as_it_is(
    kind: type[Exception],
    sender: KafkaSender,
    settings: KafkaSection,
    topic: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name, append = topic(1), RecordAccumulator.append
    before = signal.signal(signal.SIGALRM, lambda *_: _raise(kind("limit of time")))

    def interrupted(*given: Any, **named: Any) -> Any:
        result = append(*given, **named)
        signal.raise_signal(signal.SIGALRM)
        return result

    with monkeypatch.context() as patched:
        patched.setattr(RecordAccumulator, "append", interrupted)
        with pytest.raises(kind, match="limit of time"):
            sender.send(name, key=b"k", value=b"v", headers=[])
    signal.signal(signal.SIGALRM, before)
    sender.close()
    assert values(settings, name) == [b"v"]


@pytest.mark.parametrize("engine", ["kafka-python"], indirect=True)
def test_a_handler_s_error_while_the_end_is_waited_for_is_no_refusal_of_kafka(
    sender: KafkaSender, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pending = sender.send(topic(1), key=b"k", value=b"v", headers=[])
    with monkeypatch.context() as patched:
        patched.setattr(FutureRecordMetadata, "get", lambda *_, **__: _raise(InvalidRecordError()))
        with pytest.raises(RecordUnknown):
            pending.result()
    assert pending.result().offset == 0
