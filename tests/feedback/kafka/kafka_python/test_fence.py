"""A fence whose broker is away; all else of it is in the contract of the port."""

from __future__ import annotations

import pytest

from feedback.errors import KafkaUnavailable
from feedback.kafka.kafka_python.fence import KafkaPythonFence
from feedback.kafka.kafka_python.wire import KafkaWire
from feedback.settings.settings import KafkaSection
from onceward.servers.ports import HOST, free_port


def test_without_a_broker_it_says_so() -> None:
    wire = KafkaWire(KafkaSection(bootstrap_servers=f"{HOST}:{free_port()}"), timeout_s=0.5)
    with pytest.raises(KafkaUnavailable):
        KafkaPythonFence(wire, "one-writer").take([("topic", 0)])
    wire.close()
