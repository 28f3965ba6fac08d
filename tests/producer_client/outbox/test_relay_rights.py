"""Topics that the relay may not write to: in nobody's way, and sent when a person allows it."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.admin import ACLOperation, KafkaAdminClient, NewTopic, ResourceType
from sqlalchemy import Connection

from feedback.settings.settings import Settings
from producer_client import Client
from producer_client.outbox import cooldown
from tests.eventually import eventually
from tests.producer_client.conftest import MakeSettings
from tests.producer_client.outbox.conftest import Rows, relaying
from tests.producer_client.records import records_of
from tests.stack.secured import SecuredKafka, secured_kafka

LIMIT_S = 60.0
USER, PASSWORD = "relay", "of-the-relay"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """Yield a broker that asks who one is."""
    folder = tmp_path_factory.mktemp("secured")
    with secured_kafka(folder, plain={USER: PASSWORD}, scram={}) as made:
        yield made


@pytest.fixture
def topics(broker: SecuredKafka) -> dict[str, str]:
    """Return topics: `open`, `closed` that may be seen, `hidden` that may not."""
    names = {name: f"{name}-{uuid.uuid4().hex}" for name in ("open", "closed", "hidden")}
    with KafkaAdminClient(bootstrap_servers=broker.plain) as admin:
        admin.create_topics([NewTopic(name, 1, 1) for name in names.values()])
        admin.wait_for_topics([*names.values()])
    allow(broker, names["open"], ACLOperation.WRITE)
    allow(broker, names["closed"], ACLOperation.DESCRIBE)
    return names


def allow(broker: SecuredKafka, topic: str, operation: ACLOperation) -> None:
    broker.allow(USER, ResourceType.TOPIC, topic, operation)


def secured(make_settings: MakeSettings, broker: SecuredKafka, url: str) -> Settings:
    kafka: dict[str, Any] = {
        "bootstrap_servers": broker.address,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(broker.cafile),
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
    }
    return make_settings(kafka=kafka, outbox={"url": url, "unknown_topic_s": 1})


@pytest.mark.long
@pytest.mark.timeout(180)
def test_a_forbidden_topic_is_tried_apart_and_sent_when_it_is_allowed(
    make_settings: MakeSettings,
    outbox_url: str,
    broker: SecuredKafka,
    topics: dict[str, str],
    user: Connection,
    rows: Rows,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cooldown, "FORBIDDEN_REST_S", (0.2, 0.4))
    settings = secured(make_settings, broker, outbox_url)
    closed, hidden = topics["closed"], topics["hidden"]

    def sent(topic: str) -> int:
        return sum(one["topic"] == topic and one["state"] == "SENT" for one in rows())

    with Client(settings) as client, relaying(settings) as relay:

        def send(topic: str, first: int, last: int) -> None:
            for number in range(first, last):
                client.send(b"%d" % number, key=b"%d" % (number % 5), topic=topic, connection=user)
            user.commit()

        for topic in topics.values():
            send(topic, 0, 50)
        eventually(lambda: sent(topics["open"]) == 50, timeout_s=LIMIT_S)
        eventually(
            lambda: set((relay.missing or "").split(", ")) == {closed, hidden}, timeout_s=LIMIT_S
        )
        send(topics["open"], 50, 75)
        eventually(lambda: sent(topics["open"]) == 75, timeout_s=LIMIT_S)
        sender: Any = relay._senders[0]
        before = sender._producer
        tries = relay._cooldowns._cooldowns[closed].failures
        eventually(
            lambda: relay._cooldowns._cooldowns[closed].failures > tries + 3, timeout_s=LIMIT_S
        )
        send(topics["open"], 75, 100)
        eventually(lambda: sent(topics["open"]) == 100, timeout_s=LIMIT_S)
        # However often it was tried: nobody else's producer has ended by it, and nothing is parked.
        assert sender._producer is before is not None
        assert {one["state"] for one in rows() if one["topic"] != topics["open"]} == {"WAITING"}
        for topic in (closed, hidden):
            allow(broker, topic, ACLOperation.WRITE)
        eventually(lambda: sent(closed) == sent(hidden) == 50, timeout_s=LIMIT_S)
        eventually(lambda: relay.missing is None, timeout_s=LIMIT_S)
    for topic in topics.values():
        numbers = [int(one.value or b"") for one in records_of(broker.plain, topic)]
        for key in range(5):
            firsts = list(dict.fromkeys(one for one in numbers if one % 5 == key))
            assert firsts == sorted(firsts)
