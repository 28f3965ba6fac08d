"""The group changes under load: members come and go every second, cooperative and eager."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from kafka import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from tests.consumer.stage import Stage
from tests.outages.conftest import MakeStage
from tests.outages.scene import every_partition_goes_on, scene_on
from tests.stack import Servers

pytestmark = pytest.mark.waits

PARTITIONS = 4
CHANGES = 6
STAYS_S = 1.0
STRANGERS = 2
PROGRESS_WITHIN_S = 15.0
ASSIGNORS = {
    "eager": (RangePartitionAssignor, RoundRobinPartitionAssignor),
    "cooperative": (CooperativeStickyAssignor,),
}


@contextmanager
def comings_and_goings(stage: Stage, kafka: str, assignor: str) -> Iterator[Callable[[], int]]:
    """Have members that take partitions and do nothing join and leave, each second one of them.

    They cost no process each, so that the group changes far more often than workers could start.

    Yields:
        A function that returns how many have come and gone.
    """
    ending = threading.Event()
    gone: list[int] = []

    def come_and_go(number: int) -> None:
        while not ending.is_set():
            member = KafkaConsumer(
                *stage.topics.values(),
                bootstrap_servers=kafka,
                group_id=stage.group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                session_timeout_ms=6000,
                partition_assignment_strategy=ASSIGNORS[assignor],
            )
            for _ in range(10):
                if not ending.is_set():
                    member.poll(timeout_ms=int(STAYS_S * 100 * STRANGERS), max_records=1)
            member.close(autocommit=False)
            gone.append(number)

    threads = [threading.Thread(target=come_and_go, args=(one,)) for one in range(STRANGERS)]
    for thread in threads:
        thread.start()
    try:
        yield lambda: len(gone)
    finally:
        ending.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_no_partition_stands_still_after_members_came_and_went(
    make_stage: MakeStage, servers: Servers, assignor: str
) -> None:
    stage = make_stage(partitions=PARTITIONS, kafka={"assignor": assignor})
    with scene_on(stage) as scene:
        stage.start()
        with comings_and_goings(stage, servers.kafka, assignor) as gone:
            while gone() < CHANGES:
                scene.load.await_tried(5)
            stage.workers[-1].stop()
            stage.start()
        every_partition_goes_on(stage, within_s=PROGRESS_WITHIN_S)
    scene.all_succeeded()
