"""Holes of a compacted topic and of transactions are no findings on the real broker."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing

import pytest
from kafka import KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from spark_audit.stage.gaps import MARKERS
from tests.spark_audit.run.scene import Scene
from tests.spark_audit.stage.samples import BEGIN_MS
from tests.transactions import Transactions

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.parametrize("journal_url", ["sqlite"], indirect=True),
]


def _leave_a_hole(scene: Scene, *topics: str) -> None:
    """Let so many transactions end side by side that their marks pass for missing records."""
    with ExitStack() as ends:
        producers = [
            ends.enter_context(
                closing(
                    KafkaProducer(
                        bootstrap_servers=scene.servers.kafka,
                        transactional_id=f"{scene.topic}-{number}",
                    )
                )
            )
            for number in range(MARKERS + 1)
        ]
        for one in producers:
            one.init_transactions()
            one.begin_transaction()
            for topic in topics:
                one.send(topic, b"{}", key=b"k", partition=0, timestamp_ms=BEGIN_MS + 1)
            one.flush()
        for one in producers:
            one.commit_transaction()


# A producer for each marker: more than a minute for them alone.
@pytest.mark.long
def test_what_transactions_leave_is_no_gap_however_many_end_together(
    scene: Scene, topic: Callable[..., str]
) -> None:
    plain, compacted = topic(1), topic(1)
    policy = {"cleanup.policy": "compact"}
    with KafkaAdminClient(bootstrap_servers=scene.servers.kafka) as admin:
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, compacted, policy)])
    _leave_a_hole(scene, plain, compacted)
    with Transactions(scene.servers.kafka) as foreign:
        foreign.write(plain, *[b"{}"] * 3 * MARKERS, timestamp_ms=BEGIN_MS + 1)
        foreign.abort()
        foreign.write(plain, b"{}", timestamp_ms=BEGIN_MS + 1)
        foreign.commit()
    scene.commit(plain, 1)
    summary = scene.audit(scene.settings(topics=(plain, compacted))).summary
    assert summary["gaps"] == []
    # Each offset is accounted for: two records of each producer, and two that were read.
    judged = {one["topic"]: one for one in summary["offsets"]["partitions"]}
    assert judged[plain]["records"] == MARKERS + 2
    assert judged[plain]["judged"] == 2 * (MARKERS + 1) + 3 * MARKERS + 1 + 2
