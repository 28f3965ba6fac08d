"""`onceward-worker topics` for a user with few rights, on a broker that asks who one is."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka.admin import ACLOperation, KafkaAdminClient, NewTopic, ResourceType

from consumer.ops.needed_topics import look_at_topics
from feedback.settings.settings import load
from tests.consumer.samples import payments
from tests.stack.secured import secured_kafka

USER, PASSWORD = "worker", "of-the-worker"
TOPICS = {
    "readable": (ACLOperation.READ,),
    "visible": (ACLOperation.DESCRIBE, ACLOperation.DESCRIBE_CONFIGS),
    "hidden": (),
}


@pytest.mark.long
@pytest.mark.usefixtures("no_given_servers")
def test_a_right_that_is_missing_is_named(tmp_path: Path) -> None:
    with secured_kafka(tmp_path, plain={USER: PASSWORD}, scram={}) as broker:
        with KafkaAdminClient(bootstrap_servers=broker.plain) as admin:
            admin.create_topics([NewTopic(name, 1, 1) for name in TOPICS])
            admin.wait_for_topics([*TOPICS])
        for name, operations in TOPICS.items():
            if operations:
                broker.allow(USER, ResourceType.TOPIC, name, *operations)
        kafka = {
            "group": "g",
            "bootstrap_servers": broker.address,
            "security_protocol": "SASL_SSL",
            "ssl_cafile": str(broker.cafile),
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": USER,
            "sasl_plain_password": PASSWORD,
        }
        settings = load(kafka=kafka, worker={"dead_letters": "drop"})
        handlers = [payments(topic=name) for name in TOPICS]
        found = {one.topic.name: one for one in look_at_topics(settings, handlers, create=False)}
    assert {name: one.fault for name, one in found.items()} == {
        "readable": "",
        "visible": "this user may not READ it: add an ACL",
        "hidden": "this user may not see it: add an ACL",
    }
    readable, visible = found["readable"].facts, found["visible"].facts
    assert readable is not None
    assert visible is not None
    assert readable.rights == frozenset({"READ", "DESCRIBE"})
    assert dict(readable.settings) == {}
    assert visible.settings["cleanup.policy"] == "delete"
