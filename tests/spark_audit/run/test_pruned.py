"""What is offered for sending: nothing that may have run, whatever the journal has forgotten."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient

from consumer.journal import Journal
from feedback.errors import ExitCode
from spark_audit.output.paths import DayPaths
from tests.spark_audit.run.scene import IDS, Scene
from tests.spark_audit.stage.samples import BEGIN_MS, DATE, DAY_MS

pytestmark = pytest.mark.timeout(300)

DEADLINE_MS = BEGIN_MS + DAY_MS // 2 + 3_600_000
DELIVERED = 3


def _lose_what_was_not_delivered(scene: Scene, topic: str) -> None:
    """Send records of which Kafka deletes all, and the group has read the first alone."""
    producer = KafkaProducer(bootstrap_servers=scene.servers.kafka)
    for _ in IDS:
        producer.send(topic, b"{}", partition=0, timestamp_ms=BEGIN_MS + DAY_MS // 2)
    producer.close()
    scene.commit(topic, DELIVERED)
    with KafkaAdminClient(bootstrap_servers=scene.servers.kafka) as admin:
        admin.delete_records({TopicPartition(topic, 0): len(IDS)})


def test_what_was_pruned_or_deleted_leaves_the_day_incomplete_and_is_not_offered_for_sending(
    scene: Scene, topic: Callable[..., str]
) -> None:
    deleted = topic(1)
    _lose_what_was_not_delivered(scene, deleted)
    scene.journal.change(f"UPDATE onceward_request SET deadline_at = {DEADLINE_MS}")
    journal = Journal(scene.journal.url, worker_id="host-1-x", group=scene.journal.group)
    assert journal.prune(0, 1_000).requests == len(IDS) - 1
    journal.close()
    outcome = scene.audit(scene.settings(topics=(scene.topic, deleted)))
    assert outcome.exit_code is ExitCode.NOT_AVAILABLE
    found = outcome.summary["counts"]["findings"]
    # The lost one lies among them, and nobody can tell it from them.
    made = {name: count for name, count in found.items() if count}
    assert made == {"forgotten": len(IDS), "retention_gap": 1}
    (gap,) = outcome.summary["gaps"]
    assert (gap["topic"], gap["first_offset"]) == (deleted, DELIVERED)
    for cause in ("pruned", "deleted before"):
        assert any(cause in one for one in outcome.summary["unseen"]), cause
    assert not (DayPaths(scene.output, DATE).report / "resend.jsonl").exists()
