"""A compacted topic on the real broker: a hole in it is no finding, and the same elsewhere is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing

import pytest
from kafka import KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from spark_audit.gaps import MARKERS
from tests.spark_audit.run.scene import Scene
from tests.spark_audit.stage.samples import BEGIN_MS

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


def test_only_the_hole_in_a_topic_that_keeps_everything_is_told(
    scene: Scene, topic: Callable[..., str]
) -> None:
    plain, compacted = topic(1), topic(1)
    policy = {"cleanup.policy": "compact"}
    with KafkaAdminClient(bootstrap_servers=scene.servers.kafka) as admin:
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, compacted, policy)])
    _leave_a_hole(scene, plain, compacted)
    gaps = scene.audit(scene.settings(topics=(plain, compacted))).summary["gaps"]
    assert [(one["finding"], one["topic"]) for one in gaps] == [("offset_gap", plain)]
    (gap,) = gaps
    assert (gap["first_offset"], gap["records"]) == (MARKERS + 1, MARKERS + 1)
