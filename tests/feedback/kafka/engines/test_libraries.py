"""Libraries beside each other, and beside their own copy after a fork."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing

import pytest

from feedback.kafka.administrator import TopicDescription
from feedback.kafka.engines import engine_of
from feedback.settings.settings import KafkaSection
from tests.eventually import eventually
from tests.feedback.kafka.engines.grounds import Ground
from tests.feedback.kafka.engines.members import ENGINES, LIMIT_S, POLL_S, MakeMember

MakeTopic = Callable[..., str]
VALUES = [b"%d" % number for number in range(20)]


def test_both_engines_say_the_same(settings: KafkaSection, topic: MakeTopic) -> None:
    name = topic(2)
    other = engine_of(settings.model_copy(update={"client": "kafka-python"}))
    with (
        closing(engine_of(settings).administrator(settings, LIMIT_S)) as admin,
        closing(other.administrator(settings, LIMIT_S)) as theirs,
    ):
        assert admin.cluster_id() == theirs.cluster_id() != ""
        found = admin.describe([name])[name]
        assert isinstance(found, TopicDescription) and found == theirs.describe([name])[name]
        # Other tests make and delete topics meanwhile: those that are there before and after count.
        seen = [admin.topics(), theirs.topics(), admin.topics(), theirs.topics()]
        assert {name} <= seen[0] & seen[2] <= seen[1]
        assert seen[1] & seen[3] <= seen[2]


@pytest.mark.waits
@pytest.mark.parametrize("assignor", ["eager", "cooperative"])
def test_members_of_both_libraries_share_a_group(
    make_member: MakeMember, topic: MakeTopic, engine: str, assignor: str
) -> None:
    name = topic(2)
    (other,) = {*ENGINES} - {engine}
    ours = make_member(name, assignor=assignor)
    theirs = make_member(name, client=other, assignor=assignor)

    def is_shared() -> bool:
        ours.poll(0.02), theirs.poll(0.02)
        return len(ours.member.assigned()) == len(theirs.member.assigned()) == 1

    eventually(is_shared, timeout_s=LIMIT_S)
    theirs.close()
    ours.join(2)


def test_a_fork_that_touches_nothing_does_no_harm(
    make_member: MakeMember, topic: MakeTopic, ground: Ground
) -> None:
    name = topic(1)
    ground.write(name, VALUES)
    one = make_member(name)
    assert len(one.read(len(VALUES))) == len(VALUES)
    child = os.fork()
    if not child:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    one.member.commit({(name, 0): 3})
    ground.write(name, VALUES)
    assert len(one.read(len(VALUES))) == len(VALUES)
    assert one.member.committed([(name, 0)]) == {(name, 0): 3}
    assert one.poll(POLL_S) == []
