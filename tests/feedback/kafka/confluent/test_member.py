"""What a member makes of librdkafka's messages and callbacks."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaError, KafkaException

from feedback.errors import SecurityFault, SecurityKind
from feedback.kafka.confluent import kept_messages, silent_partitions, topic_counts
from feedback.kafka.confluent import member as member_module
from feedback.kafka.confluent.member import ConfluentMember
from feedback.kafka.confluent.silent_partitions import SilentPartitions, Unread
from feedback.kafka.errors import GroupRefused, KafkaFault, PartitionsFailed
from feedback.kafka.member import ANSWER_S, PartitionOwner
from feedback.kafka.partition_quarantine import RETRY_S
from feedback.kafka.values import Partition
from feedback.records.envelope import Record
from feedback.settings.settings import KafkaSection
from tests.eventually import eventually
from tests.feedback.kafka.confluent.librdkafka import (
    PLACE,
    TOPIC,
    FakeAdministrator,
    FakeAnew,
    FakeConsumer,
    FakeMessage,
)
from tests.feedback.kafka.confluent.other_reader import OtherReader

MOST = 500


class Scene(NamedTuple):
    """A member, and all that it stands on."""

    member: ConfluentMember
    consumer: FakeConsumer
    anew: FakeAnew
    owner: FakeOwner
    admin: FakeAdministrator
    other: OtherReader

    def polled(self, times: int = 1) -> list[int]:
        """Return the offsets of the records of so many polls; faults are passed over."""
        found: list[Record] = []
        for _ in range(times):
            try:
                found += self.member.poll(0, max_records=MOST)
            except KafkaFault:
                continue
        return [one.offset for one in found]


class FakeOwner:
    """Hears of partitions.

    Attributes:
        paused: partitions that it wants paused as they come.
        fault: what it raises as partitions are taken away.
    """

    def __init__(self) -> None:
        self.paused: Collection[Partition] = ()
        self.fault: KafkaFault | None = None

    def take(self, assigned: Collection[Partition]) -> Collection[Partition]:
        """Return those to be paused."""
        return [one for one in assigned if one in self.paused]

    def give_up(self, revoked: Collection[Partition]) -> Mapping[Partition, int]:
        """Return nothing to be committed."""
        if self.fault is not None:
            raise self.fault
        return {}


@pytest.fixture(params=["eager", "cooperative"])
def scene(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """Yield a member that has the topic's partition within its first poll."""
    monkeypatch.setattr(member_module, "Consumer", FakeConsumer)
    settings = KafkaSection.model_validate({"assignor": request.param})
    anew, owner = FakeAnew(), FakeOwner()
    heard = PartitionOwner(owner.take, owner.give_up, lambda *_: None)
    admin, other = FakeAdministrator(), OtherReader()
    silent = SilentPartitions(lambda: other)  # type: ignore
    member = ConfluentMember(settings, [TOPIC], heard, anew, silent, lambda: admin)  # type: ignore
    consumer: Any = member._consumer
    consumer.give(PLACE)
    yield Scene(member, consumer, anew, owner, admin, other)
    member.close()


def log(*odd: int, count: int = 5) -> list[FakeMessage]:
    """Return messages from offset 10 on; some have a header that cannot be had."""
    return [FakeMessage(at, is_odd=at in odd) for at in range(10, 10 + count)]


def test_a_record_that_cannot_be_read_anew_costs_none_behind_it(scene: Scene) -> None:
    scene.consumer.logs[PLACE] = log(12)
    scene.anew.answers[12] = KafkaFault("away")
    assert scene.polled() == []
    assert scene.polled() == [10, 11]
    assert scene.member.position(PLACE) == 12
    with pytest.raises(KafkaFault, match="away"):
        scene.member.poll(0, max_records=MOST)
    assert scene.polled() == [12, 13, 14]


def test_the_records_of_its_neighbours_come_all_the_same(scene: Scene) -> None:
    other = (TOPIC, 1)
    scene.consumer.logs = {PLACE: log(10), other: [FakeMessage(7, other)]}
    scene.consumer.give(PLACE, other)
    scene.anew.answers[10] = KafkaFault("away")
    assert scene.polled(2) == [7]
    assert scene.polled(2) == [10, 11, 12, 13, 14]


def test_a_record_that_is_gone_meanwhile_is_none_and_holds_nothing_up(scene: Scene) -> None:
    scene.consumer.logs[PLACE] = log(12, 13)
    scene.anew.answers[12] = None
    assert scene.polled(2) == [10, 11, 13, 14]
    assert scene.anew.asked == [12, 13]
    assert scene.anew.closed == 2


def test_partitions_that_librdkafka_left_unread_go_on_from_where_they_were(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.consumer.logs[PLACE] = log()
    scene.consumer.committed_at = 11
    assert scene.polled(2) == [11, 12, 13, 14]
    monkeypatch.setattr(member_module, "UNREAD_S", -1.0)
    scene.member._standing._idle_since[PLACE] = 0.0
    scene.consumer.logs[PLACE] = log(count=6)
    assert scene.polled() == [15]


@pytest.mark.parametrize("before", [[10], []])
def test_nothing_behind_a_corrupt_batch_is_handed_out_until_that_can_be_read(
    scene: Scene, before: list[int]
) -> None:
    whole = log()
    corrupt = [FakeMessage(one.offset(), error=KafkaError(KafkaError._BAD_MSG)) for one in whole]
    scene.consumer.committed_at = 10
    scene.consumer.logs[PLACE] = [*whole[: len(before)], *corrupt[len(before) : 3], *whole[3:]]
    assert scene.polled(2) == before
    for _ in range(2):
        with pytest.raises(PartitionsFailed) as caught:
            scene.member.poll(0, max_records=MOST)
        assert caught.value.partitions == {PLACE}
    scene.consumer.logs[PLACE] = whole
    assert scene.polled() == [one.offset() for one in whole[len(before) :]]
    # Else librdkafka would not look.
    assert scene.consumer.properties["check.crcs"] is True


@pytest.mark.parametrize("before", [0, 2])
def test_behind_a_corrupt_batch_its_place_is_sought_when_the_pause_of_its_owner_ends(
    scene: Scene, before: int
) -> None:
    corrupt = FakeMessage(10 + before, error=KafkaError(KafkaError._BAD_MSG))
    scene.consumer.logs[PLACE] = [*log(count=before), corrupt]
    assert scene.polled(2) == [*range(10, 10 + before)]
    # A reader may seek others, or none, before it hears of the failure.
    before_it = len(scene.consumer.sought)
    scene.member.seek({})
    assert len(scene.consumer.sought) == before_it
    with pytest.raises(PartitionsFailed):
        scene.member.poll(0, max_records=MOST)
        scene.member.poll(0, max_records=MOST)
    scene.member.pause([PLACE])
    scene.consumer.logs[PLACE] = log()
    # Till then librdkafka goes to a place of its own making, behind a seek as well.
    before_it = len(scene.consumer.sought)
    assert scene.polled(3) == []
    assert len(scene.consumer.sought) == before_it
    scene.member.resume([PLACE])
    assert scene.polled(2) == [*range(10 + before, 15)]
    assert len(scene.consumer.sought) == before_it + 1


@pytest.mark.parametrize("assigned_again", ["a neighbour", "one that is unread"])
def test_one_that_failed_at_its_first_batch_begins_anew_after_its_own_pause(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, assigned_again: str
) -> None:
    other = (TOPIC, 1)
    scene.consumer.give(PLACE, other)
    assert scene.polled(2) == []
    scene.consumer.committed_at = 10
    for place in (PLACE, other):
        bad = FakeMessage(10, place, error=KafkaError(KafkaError._BAD_MSG))
        scene.consumer.events.append(bad)
        with pytest.raises(PartitionsFailed):
            scene.member.poll(0, max_records=MOST)
        scene.member.pause([place])
    # The pause of one ends first.
    if assigned_again == "a neighbour":
        scene.member.resume([PLACE])
    else:
        monkeypatch.setattr(member_module, "UNREAD_S", -1.0)
        scene.member._standing._idle_since[PLACE] = 0.0
    assert scene.polled() == []
    # Where librdkafka goes meanwhile, by a place that it took from the bytes of the batch.
    scene.consumer.logs[other] = [FakeMessage(at, other) for at in range(12)]
    scene.consumer.at[other] = 0
    scene.member.resume([other])
    assert scene.polled(2) == [10, 11]


def test_that_pause_is_longer_than_a_broker_may_take_for_an_answer() -> None:
    assert RETRY_S > ANSWER_S


def stands_still(scene: Scene, *, times: int = 1) -> list[str]:
    """Let so many statistics say that there is more of both partitions; return what was raised."""
    raised = []
    for _ in range(times):
        scene.member._standing._offsets = {PLACE: Unread(10, 20), (TOPIC, 1): Unread(5, 5)}
        try:
            assert scene.member.poll(0, max_records=MOST) == []
        except PartitionsFailed as error:
            assert error.partitions == {PLACE}
            raised.append(str(error))
    return raised


def test_a_silent_partition_is_named_when_it_is_to_be_read(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silent_partitions, "monotonic_s", lambda: scene.other.now_s)
    scene.consumer.give(PLACE, (TOPIC, 1))
    scene.consumer.committed_at = 10
    scene.consumer.logs[PLACE] = log()
    assert scene.polled(2) == [10, 11, 12, 13, 14]
    assert stands_still(scene, times=2) == []
    scene.other.now_s += silent_partitions.LONG_S
    scene.other.ends[PLACE] = 20
    (said,) = eventually(lambda: stands_still(scene), timeout_s=10)
    assert "no record of t-0 from 15 on" in said
    scene.member.pause([PLACE])
    assert stands_still(scene, times=2) == []
    scene.member.resume([PLACE])
    assert stands_still(scene) == [said]
    scene.consumer.logs[PLACE] = log(count=6)
    assert scene.polled() == [15]
    assert stands_still(scene) == []


def test_of_a_partition_that_went_nothing_is_unread(scene: Scene) -> None:
    assert scene.polled() == []
    fetched = {PLACE: Unread(10, 20), (TOPIC, 1): Unread(20, 20)}
    assert scene.member._places.unread(fetched) == {PLACE: Unread(10, 20)}
    scene.consumer.take_away(PLACE)
    assert scene.polled() == []
    assert scene.member._places.unread(fetched) == {}


@pytest.mark.parametrize("call", ["poll", "consume"])
def test_what_was_polled_as_its_owner_failed_is_polled_again(scene: Scene, call: str) -> None:
    other = (TOPIC, 1)
    scene.consumer.give(PLACE, other)
    assert scene.polled() == []
    scene.consumer.logs = {PLACE: log(), other: [FakeMessage(7, other)]}
    scene.owner.fault = KafkaFault("of the owner")
    scene.consumer.take_away(other, within=call)
    with pytest.raises(KafkaFault, match="of the owner"):
        scene.member.poll(0, max_records=MOST)
    assert other not in scene.member.assigned()
    if not scene.member.assigned():
        scene.consumer.give(PLACE)
    # As the statistics say once the group has settled.
    scene.member._standing.is_steady = True
    assert scene.polled(2) == [10, 11, 12, 13, 14]


def test_what_librdkafka_hands_out_of_a_paused_partition_is_kept_for_later(scene: Scene) -> None:
    assert scene.polled() == []
    scene.consumer.logs[PLACE] = log(count=3)
    scene.member.pause([PLACE])
    assert scene.polled() == []
    # As it may, of what was under way.
    scene.consumer.paused.clear()
    scene.consumer.logs[PLACE] = log(count=5)
    assert scene.polled() == []
    scene.member.resume([PLACE])
    assert scene.polled(2) == [10, 11, 12, 13, 14]


def paused_with_kept(scene: Scene) -> None:
    """Pause the partition; of its messages 10 was handed out, and 11 to 14 are kept."""
    scene.consumer.logs[PLACE] = log()
    scene.consumer.hands_out = 1
    assert scene.polled() == []
    assert [one.offset for one in scene.member.poll(0, max_records=1)] == [10]
    scene.consumer.hands_out = MOST
    scene.member.pause([PLACE])
    assert scene.polled() == []
    assert scene.consumer.at[PLACE] == 5


def test_what_librdkafka_had_fetched_before_a_pause_is_handed_out_after_it(scene: Scene) -> None:
    paused_with_kept(scene)
    assert scene.consumer.paused == {PLACE}
    scene.member.resume([PLACE])
    assert [one.offset for one in scene.member.poll(0, max_records=2)] == [11, 12]
    # While there is something of it nothing more is fetched.
    assert scene.consumer.paused == {PLACE}
    assert scene.polled() == [13, 14]
    assert scene.polled() == []
    assert scene.consumer.paused == set()


def test_what_was_kept_is_forgotten_where_its_owner_seeks(scene: Scene) -> None:
    paused_with_kept(scene)
    scene.member.seek({PLACE: 13})
    scene.member.resume([PLACE])
    assert scene.polled(3) == [13, 14]


def test_what_was_kept_is_forgotten_where_its_partition_went(scene: Scene) -> None:
    paused_with_kept(scene)
    scene.consumer.committed_at = 12
    scene.member.resume([PLACE])
    scene.consumer.take_away(PLACE)
    assert scene.member.poll(0, max_records=1) == []
    assert not scene.member._places.has_kept
    assert scene.consumer.paused == set()
    scene.consumer.give(PLACE)
    assert scene.polled(3) == [12, 13, 14]


def test_what_was_kept_is_forgotten_where_its_partition_is_given_anew(scene: Scene) -> None:
    paused_with_kept(scene)
    scene.consumer.committed_at = 12
    scene.consumer.give(PLACE)
    assert scene.polled() == []
    scene.member.resume([PLACE])
    is_anew = scene.consumer.properties["partition.assignment.strategy"] != "cooperative-sticky"
    assert scene.polled(3) == ([12, 13, 14] if is_anew else [11, 12, 13, 14])


def test_no_more_is_kept_than_there_is_room_for(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_messages, "_MUCH_BYTES", 0)
    scene.consumer.logs[PLACE] = log()
    assert scene.polled() == []
    scene.member.pause([PLACE])
    assert scene.polled() == []
    assert scene.consumer.at[PLACE] == 0
    scene.member.resume([PLACE])
    assert scene.polled() == [10, 11, 12, 13, 14]


def test_what_was_kept_is_read_again_where_a_callback_fails(scene: Scene) -> None:
    other = (TOPIC, 1)
    scene.consumer.give(PLACE, other)
    paused_with_kept(scene)
    scene.owner.fault = KafkaFault("of the owner")
    scene.consumer.take_away(other)
    with pytest.raises(KafkaFault, match="of the owner"):
        scene.member.poll(0, max_records=MOST)
    scene.member.resume([PLACE])
    if not scene.member.assigned():
        scene.consumer.committed_at = 11
        scene.consumer.give(PLACE)
    assert scene.polled(4) == [11, 12, 13, 14]


def test_what_was_kept_is_read_again_where_its_partition_is_assigned_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused_with_kept(scene)
    monkeypatch.setattr(member_module, "UNREAD_S", -1.0)
    scene.member._standing._idle_since[PLACE] = 0.0
    scene.member.resume([PLACE])
    assert scene.polled(3) == [11, 12, 13, 14]


def test_an_end_that_was_told_before_a_seek_moves_no_position(scene: Scene) -> None:
    paused_with_kept(scene)
    scene.member.seek({PLACE: 11})
    end = FakeMessage(15, error=KafkaError(KafkaError._PARTITION_EOF))
    scene.member._places._seeks[PLACE] = 11
    scene.member._places.keep([end])
    scene.member.resume([PLACE])
    assert [one.offset for one in scene.member.poll(0, max_records=1)] == [11]
    assert scene.member.position(PLACE) == 12


def test_a_record_is_not_handed_out_once_its_partition_went_though_it_comes_back_at_once(
    scene: Scene,
) -> None:
    assert scene.polled() == []
    scene.consumer.logs[PLACE] = log(count=3)
    scene.consumer.committed_at = 11
    scene.consumer.take_away(PLACE, within="consume")
    scene.consumer.give(PLACE, within="consume")
    scene.consumer.hands_out = 1
    # The first was handed out and committed by another member meanwhile.
    assert scene.polled(2) == [11, 12]


class SlowBroker:
    """Answers of topics when it is told to, in the place of an administrator's client."""

    is_told = threading.Event()

    def __init__(self, _: object) -> None:
        self.topics: dict[str, SimpleNamespace] = {}

    def list_topics(self, topic: str, *, timeout: float) -> SlowBroker:
        """Return how a topic is, after a while."""
        assert self.is_told.wait(timeout)
        self.topics[topic] = SimpleNamespace(error=None, partitions={0: None, 1: None})
        return self


def test_partitions_that_cannot_be_assigned_again_yet_cost_no_record(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.consumer.logs[PLACE] = log()
    bad = FakeMessage(10, error=KafkaError(KafkaError._BAD_MSG))
    scene.consumer.events.append(bad)
    assert scene.polled(2) == []

    poll_refused(scene, monkeypatch)
    assert scene.polled() == [10, 11, 12, 13, 14]


def poll_refused(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll while partitions cannot be assigned again."""

    def refuse(_: object) -> None:
        raise KafkaException(KafkaError(KafkaError._STATE))

    with monkeypatch.context() as patch:
        for name in ("assign", "incremental_assign"):
            patch.setattr(scene.consumer, name, refuse)
        for _ in range(2):
            with pytest.raises(KafkaFault, match="_STATE"):
                scene.member.poll(0, max_records=MOST)


def test_a_partition_that_could_not_be_assigned_again_is_taken_away_like_any_other(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.consumer.logs[PLACE] = log()
    scene.consumer.events.append(FakeMessage(10, error=KafkaError(KafkaError._BAD_MSG)))
    assert scene.polled(2) == []
    poll_refused(scene, monkeypatch)
    # As the statistics say of a rebalance: nothing is assigned again meanwhile.
    scene.member._standing.is_steady = False
    scene.consumer.take_away(PLACE)
    assert scene.member.poll(0, max_records=MOST) == []
    assert scene.member.assigned() == frozenset()
    scene.consumer.give(PLACE)
    assert scene.polled(2) == [10, 11, 12, 13, 14]


def test_one_that_was_left_unread_and_could_not_be_assigned_again_is_not_forgotten(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, other = PLACE, (TOPIC, 1)
    scene.consumer.give(first, other)
    assert scene.polled(2) == []
    monkeypatch.setattr(member_module, "UNREAD_S", -1.0)
    scene.member._standing._idle_since[first] = 0.0
    poll_refused(scene, monkeypatch)
    # Statistics have nothing of one that is not assigned; another one is unread by now.
    scene.member._standing._idle_since = {other: 0.0}
    scene.consumer.logs = {first: log(), other: [FakeMessage(7, other)]}
    assert scene.polled() == [10, 11, 12, 13, 14, 7]


def test_topics_are_counted_by_a_client_for_which_no_poll_waits(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    SlowBroker.is_told.clear()
    monkeypatch.setattr(topic_counts, "AdminClient", SlowBroker, raising=False)
    monkeypatch.setattr(topic_counts, "_ANSWER_S", 60.0)
    scene.consumer.logs[PLACE] = log()
    assert scene.member.partition_counts([TOPIC]) == {}
    assert scene.polled(2) == [10, 11, 12, 13, 14]
    assert scene.member.partition_counts([TOPIC]) == {}
    SlowBroker.is_told.set()
    eventually(lambda: scene.member.partition_counts([TOPIC]) == {TOPIC: 2})


class FileGone(SlowBroker):
    """The first client of it finds no file of TLS."""

    tries = 0

    def __init__(self, properties: object) -> None:
        super().__init__(properties)
        FileGone.tries += 1
        if FileGone.tries == 1:
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG))


def test_topics_are_counted_soon_where_no_client_could_be_made_at_first(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    FileGone.tries = 0
    FileGone.is_told.set()
    monkeypatch.setattr(topic_counts, "AdminClient", FileGone, raising=False)
    monkeypatch.setattr(topic_counts, "_AGAIN_S", 0.0)
    monkeypatch.setattr(topic_counts, "METADATA_MAX_AGE_MS", 10**9)
    assert scene.member.partition_counts([TOPIC]) == {}
    eventually(lambda: scene.member.partition_counts([TOPIC]) == {TOPIC: 2}, timeout_s=30.0)
    assert FileGone.tries == 2


def test_the_member_that_librdkafka_has_forgotten_is_removed_from_its_group(scene: Scene) -> None:
    assert scene.polled() == []
    scene.member._standing.is_up = False
    scene.consumer.lose(PLACE)
    assert scene.polled(2) == []
    assert removed(scene) == []
    scene.admin.faults = [KafkaFault("the broker reads its groups")]
    scene.member._standing.is_up = True
    assert scene.polled(2) == []
    assert removed(scene) == ["first"]


def test_it_is_not_removed_before_its_partitions_are_given_up(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    had: list[Collection[Partition]] = []
    monkeypatch.setattr(scene.member._former, "remove", lambda: had.append(scene.member.assigned()))
    assert scene.polled() == []
    # As the statistics may say before librdkafka calls back.
    scene.member._standing.is_steady = False
    scene.consumer.lose(PLACE)
    assert scene.polled(2) == []
    assert had == [frozenset()]


def test_a_member_that_only_gave_its_partitions_up_is_not_removed(scene: Scene) -> None:
    assert scene.polled() == []
    scene.consumer.take_away(PLACE)
    assert scene.polled(2) == []
    assert removed(scene) == []


def forgotten(scene: Scene) -> None:
    """Let librdkafka forget the member; a broker coordinates the group."""
    assert scene.polled() == []
    scene.consumer.lose(PLACE)
    assert scene.polled() == []
    scene.member._standing.is_up = True


def test_a_removal_that_is_refused_is_not_tried_again(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    forgotten(scene)
    right = SecurityFault(SecurityKind.RIGHT, "kafka", "refused")
    scene.admin.faults = [GroupRefused("no").because(right) for _ in range(2)]
    assert scene.polled(3) == []
    assert removed(scene) == []
    assert len(scene.admin.faults) == 1
    assert [one.message.split()[0] for one in caplog.records] == ["member.not_removed"]


def test_a_member_that_was_assigned_again_is_not_removed(scene: Scene) -> None:
    forgotten(scene)
    # Its new assignment comes before the former member is looked at.
    scene.member._standing.is_up = False
    scene.consumer.member_id = "second"
    scene.consumer.give(PLACE)
    assert scene.polled(3) == []
    assert removed(scene) == []
    scene.member._standing.is_steady = False
    scene.consumer.take_away(PLACE)
    assert scene.polled(3) == []
    assert removed(scene) == []


def test_no_removal_outlives_the_member_or_holds_up_its_end(scene: Scene) -> None:
    forgotten(scene)
    asked, may_answer = threading.Event(), threading.Event()
    tries: list[str] = []

    def connect() -> FakeAdministrator:
        tries.append("")
        asked.set()
        assert may_answer.wait(60.0)
        raise KafkaFault("away")

    scene.member._former._connect = connect  # type: ignore[assignment]
    assert scene.polled() == []
    assert asked.wait(60.0)
    removal = scene.member._former._removal
    assert removal is not None and removal.daemon
    scene.member.close()
    may_answer.set()
    removal.join(60.0)
    assert not removal.is_alive()
    assert len(tries) == 1


def test_members_that_are_forgotten_one_after_the_other_are_removed_by_one_thread_at_a_time(
    scene: Scene,
) -> None:
    forgotten(scene)
    may_answer = threading.Event()

    def connect() -> FakeAdministrator:
        assert may_answer.wait(60.0)
        return scene.admin

    scene.member._former._connect = connect  # type: ignore[assignment]
    assert scene.polled() == []
    scene.consumer.member_id = "second"
    scene.consumer.give(PLACE)
    assert scene.polled() == []
    scene.consumer.lose(PLACE)
    assert scene.polled() == []
    scene.member._standing.is_up = True
    first = scene.member._former._removal
    assert scene.polled(2) == []
    assert scene.member._former._removal is first
    may_answer.set()
    assert removed(scene) == ["first"]
    assert scene.polled() == []
    assert removed(scene) == ["first", "second"]


def removed(scene: Scene) -> list[str]:
    """Return the removed members, when the removal that was begun has ended."""
    removal = scene.member._former._removal
    if removal is not None:
        removal.join(60.0)
    return scene.admin.removed
