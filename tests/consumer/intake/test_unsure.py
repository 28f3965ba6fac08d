"""Records that were dropped after a commit of which nobody could say whether it was made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from consumer.handlers.delivery import Delivery
from consumer.handlers.registry import HandlerRegistry
from consumer.intake import intake as intake_module
from consumer.intake.before_commit import BeforeCommit
from consumer.intake.buffer import Buffer
from consumer.intake.context import IntakeContext
from consumer.intake.intake import Intake
from feedback.errors import KafkaUnavailable
from feedback.kafka.errors import KafkaFault, TopicAbsent, TopicRefused
from feedback.kafka.source import CommitFailed
from feedback.kafka.values import Partition
from feedback.records.envelope import Record
from feedback.settings.settings import load
from tests.consumer.samples import payments, record

HERE = ("payments", 3)


class Source:
    """A partition of each topic, with records 0 to 2, whose commits are made and not answered."""

    spacing_s = 0.0

    def __init__(self, topics: Sequence[str] = ("payments",)) -> None:
        self.partitions = [(one, 3) for one in topics]
        self.owned: frozenset[Partition] = frozenset(self.partitions)
        self.refused: dict[str, KafkaUnavailable] = {}
        self.next = 0
        self.has_committed = 0
        self.is_made = True
        self.is_away = True
        self.is_joining = False
        self.revoked: set[Partition] = set()
        self.unnamed: set[int] = set()
        self.when_asked: Callable[[], None] = lambda: None
        self.polls = 0

    def poll(self, timeout_s: float, *, max_records: int) -> list[Record]:
        self.polls += 1
        if not self.owned or self.is_joining:
            return []
        unread = range(self.next, 3)
        self.next = 3
        return [self._record(topic, one) for topic, _ in self.partitions for one in unread]

    def _record(self, topic: str, offset: int) -> Record:
        bad = (("onceward-attempt", b"none"),)
        headers = bad if offset in self.unnamed else ()
        return record(topic=topic, offset=offset, headers=headers)

    def is_stable(self) -> bool:
        return not self.is_joining

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        if self.is_made:
            self.has_committed = max(offsets.values())
        if self.is_away:
            raise CommitFailed("timed out")

    def committed(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        self.when_asked()
        if self.is_away:
            raise KafkaUnavailable("timed out")
        for topic, _ in partitions:
            if topic in self.refused:
                raise self.refused[topic]
        return dict.fromkeys(partitions, self.has_committed)

    def rewind(self, offsets: Mapping[Partition, int]) -> None:
        if self.owned:
            self.next = min(offsets.values())

    def position(self, partition: Partition) -> int:
        return self.next if partition in self.owned else -1

    def lose(self) -> None:
        """Have the partitions taken away."""
        self.revoked.update(self.partitions)
        self.owned = frozenset()

    def take_revoked(self) -> set[Partition]:
        gone, self.revoked = self.revoked, set()
        return gone

    def leave(self, topics: frozenset[str]) -> None:
        assert not topics

    def pause(self) -> None:
        """Go on all the same."""

    resume = pause


class Statuses:
    """Tells nobody."""

    @contextmanager
    def telling(self, statuses: object) -> Iterator[list[None]]:
        yield []

    def tell(self, statuses: object) -> None:
        """Hear of what was given up."""


class Step(BeforeCommit):
    """Notes the records that nobody reads again."""

    def __init__(self) -> None:
        self.places: list[tuple[str, int]] = []

    @property
    def offsets(self) -> list[int]:
        return [offset for _, offset in self.places]

    def read_by_nobody(self, deliveries: Sequence[Delivery]) -> None:
        self.places += [(one.record.topic, one.record.offset) for one in deliveries]


class Scene:
    """An intake that takes its turns here; its first commit has no answer.

    Args:
        unnamed: the offsets of records that are refused.
    """

    def __init__(
        self, *, unnamed: Sequence[int] = (), topics: Sequence[str] = ("payments",)
    ) -> None:
        registry = HandlerRegistry()
        for topic in topics:
            registry.add(payments(topic=topic))
        self.source, self.step, self.buffer = Source(topics), Step(), Buffer(100)
        self.source.unnamed.update(unnamed)
        self.may_take = True
        context = IntakeContext(
            settings=load(),
            worker_id="me",
            status_writer=Statuses(),  # type: ignore[arg-type]
            buffer=self.buffer,
            may_take=lambda: self.may_take,
            wake=lambda: None,
            on_end=lambda error: None,
        )
        source: Any = self.source
        self._intake = Intake(
            context, registry.handlers, open_source=lambda: source, before_commit=[self.step]
        )
        self.turn()
        assert len(self.buffer) == 0

    def turn(self, times: int = 1) -> None:
        """Take turns."""
        source: Any = self.source
        for _ in range(times):
            self._intake._turn(source)

    def leave(self) -> None:
        """Have the intake stop."""
        self._intake.leave()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "DROPPED_PAUSE_S", 0.0)
    monkeypatch.setattr(intake_module, "AWAY_PAUSE_S", 0.0)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_those_whose_partition_went_are_given_back_if_the_commit_was_made(scene: Scene) -> None:
    scene.source.lose()
    scene.source.is_away = False
    scene.turn(times=3)
    assert scene.step.offsets == [0, 1, 2]
    assert len(scene.buffer) == 0


def test_nothing_is_given_back_before_kafka_says_that_it_was_made(scene: Scene) -> None:
    scene.source.lose()
    scene.turn(times=3)
    assert scene.step.offsets == []
    scene.source.is_away = False
    scene.turn()
    assert scene.step.offsets == [0, 1, 2]


def test_the_next_owner_reads_those_whose_commit_was_not_made(scene: Scene) -> None:
    scene.source.lose()
    scene.source.is_away, scene.source.has_committed = False, 1
    scene.turn(times=3)
    assert scene.step.offsets == [0]


def test_those_of_a_partition_that_stays_are_read_again(scene: Scene) -> None:
    scene.turn()
    scene.source.is_away = False
    scene.turn()
    assert [one.record.offset for one in scene.buffer.waiting] == [0, 1, 2]
    scene.source.lose()
    scene.turn(times=2)
    assert scene.step.offsets == []


def test_those_of_a_partition_that_came_back_are_read_on_from_there(scene: Scene) -> None:
    # kafka-python keeps the positions of its partitions across a rebalance.
    scene.source.revoked.add(HERE)
    scene.source.is_made = False
    scene.turn()
    scene.source.is_away = False
    scene.turn(times=2)
    assert scene.step.offsets == []
    assert [one.record.offset for one in scene.buffer.waiting] == [0, 1, 2]


def test_those_that_a_partition_skipped_when_it_came_back_are_given_back(scene: Scene) -> None:
    scene.source.revoked.add(HERE)
    scene.source.next = 3
    scene.source.is_away = False
    scene.turn(times=2)
    assert scene.step.offsets == [0, 1, 2]


@pytest.mark.parametrize("says_so", [True, False])
def test_those_of_a_partition_that_is_ours_for_a_while_after_it_is_said_to_go_are_given_back(
    scene: Scene, says_so: bool
) -> None:
    # So it is in an eager group of kafka-python, which says nothing more when it has gone.
    source = scene.source
    source.revoked.add(HERE)
    source.is_joining, source.is_away = True, False
    if not says_so:
        source.is_stable = lambda: True  # type: ignore[method-assign]
    scene.turn(times=3)
    assert scene.step.offsets == []
    source.owned = frozenset()
    source.is_joining = False
    scene.turn(times=2)
    assert scene.step.offsets == [0, 1, 2]


def test_nothing_is_given_back_before_the_group_has_shared_out_its_partitions(
    scene: Scene,
) -> None:
    scene.source.lose()
    scene.source.is_joining, scene.source.is_away = True, False
    scene.turn(times=3)
    assert scene.step.offsets == []
    scene.source.is_joining = False
    scene.turn()
    assert scene.step.offsets == [0, 1, 2]


def test_none_is_forgotten_when_kafka_refuses_to_say_where_it_is_read_on(scene: Scene) -> None:
    source, asked = scene.source, []

    def position(partition: Partition) -> int:
        asked.append(partition)
        if len(asked) == 2:
            raise KafkaUnavailable("it is refused")
        return -1

    source.lose()
    source.is_away = False
    source.position = position  # type: ignore[method-assign]
    scene.turn(times=3)
    assert len(asked) == 5
    assert scene.step.offsets == [0, 1, 2]


@pytest.mark.parametrize("refusal", [TopicRefused("not yours"), TopicAbsent("unknown")])
def test_a_topic_of_which_kafka_does_not_answer_holds_back_no_other(refusal: KafkaFault) -> None:
    scene = Scene(topics=["audits", "mails", "payments"])
    scene.source.lose()
    scene.source.is_away = False
    scene.source.refused["mails"] = refusal
    scene.turn(times=3)
    others = [(topic, offset) for topic in ("audits", "payments") for offset in range(3)]
    assert scene.step.places == others
    scene.source.refused.clear()
    scene.turn(times=2)
    assert scene.step.places == [*others, *(("mails", offset) for offset in range(3))]


def test_a_kafka_that_is_away_is_not_asked_of_each_topic() -> None:
    scene = Scene(topics=["mails", "payments"])
    asked: list[object] = []
    scene.source.lose()
    scene.turn()
    scene.source.when_asked = lambda: asked.append(None)
    scene.turn()
    assert len(asked) == 1


def test_a_refused_record_is_written_by_the_worker_that_dropped_it() -> None:
    scene = Scene(unnamed=[1])
    scene.source.lose()
    scene.source.is_away = False
    scene.turn(times=3)
    assert scene.step.offsets == [0, 2]
    assert [one.record.offset for one in scene.buffer.waiting] == [1]


def test_an_intake_that_is_to_stop_asks_kafka_nothing_more(scene: Scene) -> None:
    scene.source.lose()
    scene.turn()
    scene.may_take = False
    scene.source.when_asked = scene.leave
    polls = scene.source.polls
    scene.turn()
    assert scene.source.polls == polls
