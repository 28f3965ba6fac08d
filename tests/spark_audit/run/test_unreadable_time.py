"""A time that Spark cannot hold ends the audit with the name of its record."""

from __future__ import annotations

import pytest
from kafka import KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from feedback.errors import NotAvailable
from feedback.records.envelope import REQUEST_ID
from tests.spark_audit.run.scene import IDS, Scene
from tests.spark_audit.stage.samples import BEGIN_MS, DAY_MS

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.parametrize("journal_url", ["sqlite"], indirect=True),
]
NANOSECONDS = (BEGIN_MS + DAY_MS // 2) * 1_000_000


def test_a_time_in_nanoseconds_is_told_with_the_place_of_its_record(scene: Scene) -> None:
    any_time = {"message.timestamp.after.max.ms": str(2**63 - 1)}
    with KafkaAdminClient(bootstrap_servers=scene.servers.kafka) as admin:
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, scene.topic, any_time)])
    producer = KafkaProducer(bootstrap_servers=scene.servers.kafka)
    headers = [(REQUEST_ID, b"in-nanoseconds")]
    producer.send(scene.topic, b"{}", headers=headers, partition=0, timestamp_ms=NANOSECONDS)
    producer.close()
    scene.commit(scene.topic, len(IDS) + 1)
    with pytest.raises(NotAvailable, match=f"{scene.topic}-0 at offset {len(IDS)} has a time"):
        scene.audit()
    assert scene.has_no_end()
