"""Kafka fails under load: a broker restarts, stays away, refuses commits, loses their replies."""

from collections.abc import Iterator

import pytest
from kafka.admin import KafkaAdminClient, MemberToRemove, NewTopic

from onceward.servers.kafka import SOON_MISSED, Broker
from onceward.servers.ports import HOST, free_port
from tests.consumer.stage import Stage
from tests.eventually import eventually
from tests.left_open import left_open
from tests.outages.conftest import MakeStage
from tests.outages.scene import scene_on
from tests.stack.losing_link import LosingLink, Loss, is_offset_commit
from tests.stack.restartable import Restartable, restartable

pytestmark = pytest.mark.waits

# Each takes the client's whole `send_timeout_s` of 2 s.
AWAY_TRIES = 3
RESUMES_WITHIN_S = 40.0


@pytest.fixture(scope="module")
def losing() -> Iterator[tuple[Restartable, LosingLink]]:
    """Yield a broker that may fail, and the link through which everybody reaches it."""
    port = free_port()
    with left_open(), LosingLink(f"{HOST}:{port}", loses=is_offset_commit) as link:
        chosen = Broker(port=port, advertised=link.address, settings=SOON_MISSED)
        with restartable(lambda: chosen) as broker:
            yield broker, link


def test_work_goes_on_by_itself_after_a_restart_and_after_an_absence(
    make_stage: MakeStage, losing: tuple[Restartable, LosingLink]
) -> None:
    broker, _ = losing
    with scene_on(make_stage(kafka_at=broker.address)) as scene:
        broker.stop()
        broker.start()
        scene.resumes(within_s=RESUMES_WITHIN_S)
        with broker.down():
            scene.logs("kafka.away")
            scene.load.await_tried(AWAY_TRIES)
        scene.resumes(within_s=RESUMES_WITHIN_S)
        scene.logs("kafka.back")
    scene.all_succeeded()


def test_a_commit_that_timed_out_and_was_applied_loses_nothing_and_repeats_nothing(
    make_stage: MakeStage, losing: tuple[Restartable, LosingLink]
) -> None:
    broker, link = losing
    with scene_on(make_stage(kafka_at=broker.address)) as scene:
        lost = link.lost
        link.lose(1, Loss.SILENCE)
        eventually(lambda: link.lost > lost, timeout_s=30)
        scene.logs("commit.failed")
        scene.resumes(within_s=RESUMES_WITHIN_S)
    scene.all_succeeded()


def test_commits_whose_connection_broke_before_the_reply_are_made_again(
    make_stage: MakeStage, losing: tuple[Restartable, LosingLink]
) -> None:
    broker, link = losing
    with scene_on(make_stage(kafka_at=broker.address)) as scene:
        lost = link.lost
        link.lose(5, Loss.CUT)
        eventually(lambda: link.lost >= lost + 5, timeout_s=30)
        scene.resumes(within_s=RESUMES_WITHIN_S)
    scene.all_succeeded()


def test_a_refused_commit_drops_its_records_and_they_are_read_again(
    make_stage: MakeStage, losing: tuple[Restartable, LosingLink]
) -> None:
    broker, _ = losing
    stage = make_stage(kafka_at=broker.address)
    with scene_on(stage) as scene:

        def one_was_refused() -> bool:
            remove_members(stage, broker.address)
            return bool(scene.worker.events("commit.failed"))

        eventually(one_was_refused, timeout_s=60, interval_s=0.5)
        scene.resumes(within_s=RESUMES_WITHIN_S)
    scene.all_succeeded()


def test_a_topic_that_is_deleted_and_made_again_is_read_again(
    make_stage: MakeStage, losing: tuple[Restartable, LosingLink]
) -> None:
    broker, _ = losing
    stage = make_stage(kafka_at=broker.address)
    with scene_on(stage) as scene:
        recreate(stage.topics["work"], broker.address)
        scene.resumes(within_s=RESUMES_WITHIN_S)
    # What the topic held unread went with it: the client that waits has sent it again.
    scene.all_succeeded()


def remove_members(stage: Stage, address: str) -> None:
    """Throw the members out: one that commits before its next heartbeat is refused."""
    if not (members := [MemberToRemove(member_id=one) for one in stage.members()]):
        return  # it is just changing
    with KafkaAdminClient(bootstrap_servers=address) as admin:
        admin.remove_group_members(stage.group, members)


def recreate(topic: str, address: str) -> None:
    with KafkaAdminClient(bootstrap_servers=address) as admin:
        admin.delete_topics([topic])
        eventually(lambda: topic not in admin.list_topics(), timeout_s=30)
        admin.create_topics([NewTopic(topic, 2, 1)])
        admin.wait_for_topics([topic])
