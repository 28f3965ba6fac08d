"""Records whose end the libraries would get wrong, on the real broker."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from feedback.clock import monotonic_s
from feedback.kafka.confluent import producer as producer_module
from feedback.kafka.confluent.producer import ConfluentProducer
from feedback.kafka.outgoing import NotAcknowledged, Outgoing
from feedback.settings.settings import KafkaSection
from tests.producer_client.records import records_of
from tests.stack import Servers

TIMEOUT_S = 60.0


def one(topic: str, value: bytes) -> Outgoing:
    """Return a record."""
    return Outgoing(topic, 0, key=b"k", value=value, headers=())


class _Late:
    """A producer of librdkafka whose flush takes all time that there is."""

    def __init__(self, producer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self._producer, self._monkeypatch = producer, monkeypatch

    def flush(self, timeout_s: float) -> None:
        self._producer.flush(timeout_s)
        self._monkeypatch.setattr(producer_module, "monotonic_s", lambda: monotonic_s() + 100)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)


@pytest.mark.parametrize("is_heard_late", [False, True])
def test_of_a_batch_that_was_too_large_nothing_is_sent_once_its_results_were_told(
    servers: Servers,
    topic: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    is_heard_late: bool,
) -> None:
    name = topic(1, configs={"max.message.bytes": "500"})
    settings = KafkaSection(bootstrap_servers=servers.kafka, group="g", client="confluent")
    # All of them are one batch, also on a machine that stands still for a moment.
    monkeypatch.setattr(producer_module, "_LINGER_MS", 1000)
    producer = ConfluentProducer(settings, TIMEOUT_S)
    sent = [producer.send(one(name, os.urandom(100)), 0) for _ in range(20)]
    with monkeypatch.context() as patch:
        if is_heard_late:
            producer.flush(0.0)
            told = [each.result(TIMEOUT_S) for each in sent]
        else:
            patch.setattr(producer, "_producer", _Late(producer._producer, patch))
            producer.flush(TIMEOUT_S)
            told = [each.result(0.0) for each in sent]
    assert {type(error) for error in told} == {NotAcknowledged}
    last = producer.send(one(name, b"last"), 0)
    producer.flush(TIMEOUT_S)
    assert last.result(TIMEOUT_S) is None
    assert [each.value for each in records_of(servers.kafka, name)] == [b"last"]
    producer.close(1.0)


def test_a_workers_records_have_the_mend_for_refused_retries() -> None:
    code = (
        "import feedback.kafka.kafka_python.producer\n"
        "from kafka.producer import record_accumulator\n"
        "print(record_accumulator.ProducerBatch.__module__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "feedback.kafka.kafka_python.retries"
