"""A relay that is asked to stop while Kafka takes some of what it has, and the producer hangs."""

import threading
from collections.abc import Collection, Iterator
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError
from sqlalchemy import Connection

from feedback.clock import monotonic_s
from feedback.kafka.kafka_python.pending_record import KafkaPythonPending
from feedback.kafka.send_errors import RecordNotSent
from feedback.settings.settings import Settings
from producer_client import Client
from producer_client.outbox import relay as relay_module
from producer_client.outbox.row import lane_of
from tests.eventually import eventually
from tests.producer_client.conftest import MakeSettings
from tests.producer_client.outbox.conftest import Rows, relaying

pytestmark = pytest.mark.waits

LIMIT_S = 60.0


class Answer:
    """What kafka-python gives for a record; one without a place never comes."""

    def __init__(self, place: SimpleNamespace | None) -> None:
        self.is_done = place is not None
        self._place = place
        self._comes = threading.Event()

    def get(self, timeout: float) -> SimpleNamespace | None:
        if not self.is_done:
            self._comes.wait(timeout)
            raise KafkaTimeoutError("no answer")
        return self._place


class Hanging:
    """A sender whose Kafka takes what is not called `stuck`, and whose end takes too long."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self.is_over = threading.Event()
        self.sent: list[bytes] = []

    def look_up(self, topics: Collection[str]) -> dict[str, RecordNotSent]:
        return {}

    def send(self, topic: str, *, key: bytes, value: bytes, headers: object) -> KafkaPythonPending:
        self.sent.append(value)
        place = SimpleNamespace(topic=topic, partition=0, offset=len(self.sent))
        return KafkaPythonPending(Answer(None if value == b"stuck" else place), monotonic_s() + 60)

    def abandon(self) -> None:
        if b"stuck" in self.sent:
            self.is_over.wait()

    def close(self, timeout_s: float) -> None:
        """Nothing is left."""


@pytest.fixture
def senders(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Hanging]]:
    """Yield the senders that a relay makes."""
    made: list[Hanging] = []

    def make(*given: Any, **named: Any) -> Hanging:
        made.append(Hanging())
        return made[-1]

    monkeypatch.setattr(relay_module, "open_ordered_sender", make)
    yield made
    for one in made:
        one.is_over.set()


@pytest.fixture
def settings(make_settings: MakeSettings, outbox_url: str) -> Settings:
    """Return settings of a relay that keeps its lease, however slow the machine is."""
    return make_settings(outbox={"url": outbox_url, "lease_s": 120})


def test_what_kafka_has_acknowledged_is_marked_before_the_rest_is_given_up(
    settings: Settings, user: Connection, rows: Rows, senders: list[Hanging]
) -> None:
    held = lane_of(settings.client.topic or "", b"k", "stuck")
    other = next(one for one in map(str, count()) if lane_of("other-topic", None, one) != held)
    with Client(settings) as client:
        for value in ("stuck", "first", "second"):
            client.send(value, key="k", request_id=value, connection=user)
        user.commit()
        with relaying(settings):
            eventually(lambda: b"second" in senders[0].sent, timeout_s=LIMIT_S)
            # Another batch, all of it acknowledged, behind the one that is not. Of the same topic
            # none is begun once Kafka has been slow over it for half a second, and of the same lane
            # none before it has landed.
            client.send("other", topic="other-topic", request_id=other, connection=user)
            user.commit()
            eventually(lambda: b"other" in senders[0].sent, timeout_s=LIMIT_S)
        # Without a bound it would wait until the sender ends, which is after the test.
        assert not senders[0].is_over.is_set()
    states = {one["request_id"]: one["state"] for one in rows()}
    assert states == {"stuck": "WAITING", "first": "SENT", "second": "SENT", other: "SENT"}
