"""Records whose end the libraries would get wrong, on the real broker."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic
from kafka.errors import MessageSizeTooLargeError

from feedback.clock import monotonic_s
from feedback.kafka.confluent import producer as producer_module
from feedback.kafka.confluent.producer import ConfluentProducer
from feedback.kafka.engines import engine_of
from feedback.kafka.outgoing import NotAcknowledged, Outgoing
from feedback.settings.settings import KafkaSection
from onceward.servers.kafka import Broker
from onceward.servers.keeper import Keeper
from onceward.servers.launch import launch
from onceward.servers.ports import HOST, free_port
from tests.eventually import eventually
from tests.feedback.kafka.engines.grounds import settings_at
from tests.left_open import left_open
from tests.producer_client.records import records_of
from tests.stack import Servers
from tests.stack.losing_link import LosingLink, Loss

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


def is_produce(sent: bytes) -> bool:
    """Whether this begins with a request that writes records."""
    return sent[4:6] == b"\x00\x00"


class _TriedAgain(LosingLink):
    """Loses an acknowledgement when it is told to, and then lets something happen.

    Attributes:
        before_retry: called before the next request that writes records.
    """

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream, loses=is_produce)
        self.before_retry: Callable[[], None] | None = None

    def _taken(self, data: bytes) -> Loss | None:
        step = self.before_retry
        if self.lost and step is not None and is_produce(data):
            self.before_retry = None
            step()
        return super()._taken(data)


@pytest.fixture(scope="module")
def link() -> Iterator[_TriedAgain]:
    """Yield the way to a broker that tells its clients this way."""
    address = f"{HOST}:{free_port()}"
    with left_open(), Keeper() as keeper, _TriedAgain(address) as made:
        port = int(address.rpartition(":")[2])
        launch(keeper, lambda: Broker(port=port, advertised=made.address))
        yield made


@pytest.mark.waits
@pytest.mark.parametrize("is_refused", [False, True])
def test_a_record_whose_acknowledgement_was_lost_is_sent_again_and_never_called_refused(
    link: _TriedAgain, engine: str, group: str, is_refused: bool
) -> None:
    admin = KafkaAdminClient(bootstrap_servers=link.address)
    admin.create_topics([NewTopic(group, 1, 1)])
    admin.wait_for_topics([group])

    def refuse() -> None:
        limit = ConfigResource(ConfigResourceType.TOPIC, group, {"max.message.bytes": "500"})
        admin.alter_configs([limit])
        await_refusal(link.address, group)

    settings = settings_at(link.address, engine, group)
    producer = engine_of(settings).producer(settings, TIMEOUT_S)
    producer.partitions(group)
    link.lost, link.before_retry = 0, refuse if is_refused else None
    value = os.urandom(2000)
    link.lose(1)
    sent = producer.send(one(group, value), 0)
    producer.flush(TIMEOUT_S)
    error = sent.result(TIMEOUT_S)
    assert link.lost == 1
    assert type(error) is (NotAcknowledged if is_refused else type(None)), error
    assert {each.value for each in records_of(link.address, group)} >= {value}
    producer.close(1.0)
    admin.close()


def await_refusal(address: str, topic: str) -> None:
    """Write until that is refused."""
    with KafkaProducer(bootstrap_servers=address, compression_type=None) as producer:

        def is_refused() -> bool:
            try:
                producer.send(topic, bytes(1000), partition=0).get(TIMEOUT_S)
            except MessageSizeTooLargeError:
                return True
            return False

        eventually(is_refused)


def test_a_workers_records_have_the_mend_for_refused_retries() -> None:
    code = (
        "import feedback.kafka.kafka_python.producer\n"
        "from kafka.producer import record_accumulator\n"
        "print(record_accumulator.ProducerBatch.__module__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "feedback.kafka.kafka_python.retries"
