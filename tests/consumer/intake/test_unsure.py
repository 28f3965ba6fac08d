"""Records that were dropped after a commit of which nobody could say whether it was made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from consumer.handlers.registry import HandlerRegistry
from consumer.intake import intake as intake_module
from consumer.intake.before_commit import BeforeCommit
from consumer.intake.buffer import Buffer, Received
from consumer.intake.context import IntakeContext
from consumer.intake.intake import Intake
from feedback.errors import KafkaUnavailable
from feedback.kafka.source import CommitFailed
from feedback.kafka.values import Partition
from feedback.records.envelope import Record
from feedback.settings.settings import load
from tests.consumer.samples import payments, record

HERE = ("payments", 3)


class Source:
    """A partition with records 0 to 2, whose commits are made and not answered."""

    def __init__(self) -> None:
        self.owned: frozenset[Partition] = frozenset({HERE})
        self.next = 0
        self.has_committed = 0
        self.is_made = True
        self.is_away = True
        self.revoked: set[Partition] = set()

    def poll(self, timeout_s: float, *, max_records: int) -> list[Record]:
        if not self.owned:
            return []
        found = [record(offset=one) for one in range(self.next, 3)]
        self.next = 3
        return found

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        if self.is_made:
            self.has_committed = offsets[HERE]
        if self.is_away:
            raise CommitFailed("timed out")

    def committed(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        if self.is_away:
            raise KafkaUnavailable("timed out")
        return dict.fromkeys(partitions, self.has_committed)

    def rewind(self, offsets: Mapping[Partition, int]) -> None:
        if HERE in self.owned:
            self.next = offsets[HERE]

    def position(self, partition: Partition) -> int:
        return self.next if partition in self.owned else -1

    def lose(self) -> None:
        """Have the partition taken away."""
        self.revoked.add(HERE)
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

    def tell_now(self, statuses: object) -> list[None]:
        return []

    def tell(self, statuses: object) -> None:
        """Hear of what was given up."""


class Step(BeforeCommit):
    """Notes the records that nobody reads again."""

    def __init__(self) -> None:
        self.offsets: list[int] = []

    def read_by_nobody(self, received: Sequence[Received]) -> None:
        self.offsets += [one.record.offset for one in received]


class Scene:
    """An intake that takes its turns here; its first commit has no answer."""

    def __init__(self) -> None:
        registry = HandlerRegistry()
        registry.add(payments())
        self.source, self.step, self.buffer = Source(), Step(), Buffer(100)
        context = IntakeContext(
            settings=load(),
            worker_id="me",
            status_writer=Statuses(),  # type: ignore[arg-type]
            buffer=self.buffer,
            may_take=lambda: True,
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


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(intake_module, "DROPPED_PAUSE_S", 0.0)
    monkeypatch.setattr(intake_module, "AWAY_PAUSE_S", 0.0)
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
