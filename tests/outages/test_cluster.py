"""One of three brokers fails under load: replication 3, and two in sync suffice."""

from collections.abc import Iterator

import pytest

from tests.left_open import left_open
from tests.outages.conftest import MakeStage
from tests.outages.scene import every_partition_goes_on, scene_on
from tests.stack.cluster import Cluster, cluster

pytestmark = pytest.mark.waits

RESUMES_WITHIN_S = 40.0


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    """Yield three brokers, each of which may fail."""
    with left_open(), cluster() as started:
        yield started


def test_work_goes_on_while_one_of_three_brokers_is_killed(
    make_stage: MakeStage, three: Cluster
) -> None:
    # Each leads a partition, and the one that is killed coordinates the group besides.
    stage = make_stage(kafka_at=three.address, replicas=3, partitions=3)
    with scene_on(stage) as scene:
        with three.coordinator(stage.group).down():
            every_partition_goes_on(stage, within_s=RESUMES_WITHIN_S)
        three.await_complete()
        every_partition_goes_on(stage, within_s=RESUMES_WITHIN_S)
    scene.all_succeeded()
