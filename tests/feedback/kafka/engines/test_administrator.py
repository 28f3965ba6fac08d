"""Questions and requests about topics and groups, whatever library they are asked with."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import pytest

from feedback.clock import epoch_ms
from feedback.kafka.administrator import Administrator, NewTopic, OffsetMark, TopicDescription
from feedback.kafka.engines import engine_of
from feedback.kafka.errors import KafkaFault, TopicAbsent, TopicExists
from feedback.settings.settings import KafkaSection
from tests.eventually import eventually
from tests.feedback.kafka.engines.grounds import Ground
from tests.feedback.kafka.engines.members import LIMIT_S, MakeMember

MakeTopic = Callable[..., str]
VALUES = [b"1", b"2", b"3"]


@pytest.fixture
def admin(settings: KafkaSection) -> Iterator[Administrator]:
    """Yield an administrator of the shared broker."""
    with closing(engine_of(settings).administrator(settings, LIMIT_S)) as made:
        yield made


def described(admin: Administrator, name: str) -> TopicDescription:
    """Return the description of a topic that is there."""
    found = admin.describe([name])[name]
    assert isinstance(found, TopicDescription)
    return found


def test_a_topic_is_made_described_and_deleted(admin: Administrator, group: str) -> None:
    name = f"made-{group}"
    wanted = NewTopic(3, 1, {"max.message.bytes": "12345", "cleanup.policy": "compact"})
    assert admin.make({name: wanted}, only_rehearse=True) == {}
    assert isinstance(admin.describe([name])[name], TopicAbsent)
    assert admin.make({name: wanted}) == {}
    first = described(admin, name)
    assert (first.name, first.partitions, first.replicas) == (name, (0, 1, 2), 1)
    assert {"READ", "WRITE", "DESCRIBE", "ALTER_CONFIGS"} <= first.rights
    assert name in admin.topics()
    asked = ["max.message.bytes", "cleanup.policy", "min.insync.replicas", "no.such.setting"]
    given = {"max.message.bytes": "12345", "cleanup.policy": "compact", "min.insync.replicas": "1"}
    found = admin.configs([name, f"{name}-missing"], asked)
    assert (found.pop(name), found.pop(f"{name}-missing", {}), found) == (given, {}, {})
    again = admin.make({name: wanted, f"{name}-default": NewTopic()})
    assert [*again] == [name] and isinstance(again[name], TopicExists)
    assert described(admin, f"{name}-default").partitions
    admin.delete_topics([name])
    eventually(lambda: isinstance(admin.describe([name])[name], TopicAbsent), timeout_s=LIMIT_S)
    admin.make({name: wanted})
    assert described(admin, name).topic_id != first.topic_id


def test_what_is_asked_of_nothing_is_not_asked(admin: Administrator) -> None:
    assert admin.describe([]) == {}
    assert admin.configs([], ["cleanup.policy"]) == {}
    assert admin.offsets([], OffsetMark.END) == admin.group_offsets({"any": []}) == {}


def test_a_name_that_is_none_is_refused(admin: Administrator) -> None:
    name = "x" * 250
    (refused,) = admin.make({name: NewTopic(1, 1)}).values()
    assert not isinstance(refused, TopicAbsent | TopicExists)
    assert "nvalid" in refused.words


def test_the_marks_of_a_partition(admin: Administrator, topic: MakeTopic, ground: Ground) -> None:
    name = topic(2)
    place, empty = (name, 0), (name, 1)
    ground.write(name, VALUES, timestamp_ms=epoch_ms() - 60_000)
    now_ms = epoch_ms()
    with ground.transactions() as foreign:
        foreign.write(name, b"open")
        assert admin.offsets([place, empty], OffsetMark.BEGIN) == {place: 0, empty: 0}
        assert admin.offsets([place, empty], OffsetMark.END) == {place: 4, empty: 0}
        assert admin.offsets([place], OffsetMark.COMMITTED_END) == {place: 3}
        assert admin.offsets_at([place, empty], now_ms) == {place: 3, empty: -1}
        assert admin.offsets_at([place], 0) == {place: 0}
        foreign.commit()
    # The mark of the end comes a moment later.
    eventually(
        lambda: admin.offsets([place], OffsetMark.COMMITTED_END) == {place: 5}, timeout_s=LIMIT_S
    )
    with pytest.raises(KafkaFault):
        admin.offsets([(f"{name}-missing", 0)], OffsetMark.END)


def test_groups_their_offsets_and_their_end(
    admin: Administrator, make_member: MakeMember, topic: MakeTopic, settings: KafkaSection
) -> None:
    name, group = topic(2), settings.group
    one = make_member(name)
    one.join(2)
    one.member.commit({(name, 1): 7})
    places = [(name, 0), (name, 1)]
    assert group in admin.groups()
    assert admin.group_offsets({group: places, f"{group}-none": places}) == {(name, 1): 7}
    assert admin.group_offsets({group: None}) == {(name, 1): 7}
    with suppress(KafkaFault):  # some libraries say it
        admin.delete_groups([group])
    assert group in admin.groups()
    one.close()
    admin.delete_groups([group])
    assert group not in admin.groups()


def test_a_member_that_is_removed_joins_as_another_one(
    admin: Administrator,
    make_member: MakeMember,
    topic: MakeTopic,
    settings: KafkaSection,
    ground: Ground,
) -> None:
    name, group = topic(1), settings.group
    one = make_member(name)
    one.join(1)
    (former,) = ground.members(group)
    admin.remove_member(group, former)
    # Nothing, where it is no member.
    admin.remove_member(group, former)
    admin.remove_member(f"{group}-none", former)
    assert f"{group}-none" not in admin.groups()
    assert former not in ground.members(group)
    eventually(lambda: one.poll() == [] and ground.members(group), timeout_s=LIMIT_S)
    assert former not in ground.members(group)


def test_a_topic_that_cannot_be_deleted_is_said(admin: Administrator) -> None:
    with pytest.raises(TopicAbsent):
        admin.delete_topics([f"missing-{uuid.uuid4().hex}"])
