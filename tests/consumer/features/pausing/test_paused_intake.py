"""What the intake does about a topic that is paused: nothing of it is fetched, or comes in."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from consumer.features.pausing.circuit_breaker import CircuitBreaker
from consumer.features.pausing.pausing import Pausing
from consumer.handlers.registry import HandlerRegistry
from consumer.intake.buffer import Buffer
from consumer.intake.context import IntakeContext
from consumer.intake.intake import Intake
from consumer.journal.pauses import PauseRow
from feedback.kafka.values import Partition
from feedback.records.envelope import Record
from feedback.settings.settings import load
from tests.consumer.samples import payments, record
from tests.eventually import eventually

STOP = PauseRow("payments", "r", 1, "somebody")


class Source:
    """A topic with one record more at each poll, whether it is left or not."""

    spacing_s = 0.0

    def __init__(self) -> None:
        self.left: list[frozenset[str]] = []
        self.rewound: dict[Partition, int] = {}
        self.committed: dict[Partition, int] = {}
        self.owned: frozenset[Partition] = frozenset({("payments", 3)})
        self.polls = 0
        self.next = 0
        self.on_poll = threading.Event()

    def leave(self, topics: frozenset[str]) -> None:
        self.left.append(topics)

    def pause(self) -> None:
        """Go on all the same."""

    resume = pause

    def poll(self, timeout_s: float, *, max_records: int) -> list[Record]:
        self.polls += 1
        self.on_poll.set()
        found = record(offset=self.next)
        self.next += 1
        return [found]

    def rewind(self, offsets: Mapping[Partition, int]) -> None:
        self.rewound |= offsets
        self.next = offsets["payments", 3]

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        self.committed |= offsets

    def take_revoked(self) -> set[Partition]:
        return set()

    def close(self) -> None:
        """There is nothing to leave."""


class StatusWriter:
    """Tells nobody."""

    @contextmanager
    def telling(self, statuses: object) -> Iterator[list[None]]:
        """Hear of what came in, and know nothing of it."""
        yield []


class Scene:
    """An intake at work on a source in memory."""

    def __init__(self) -> None:
        registry = HandlerRegistry()
        registry.add(payments())
        self.source = Source()
        self.buffer = Buffer(10_000)
        self.pausing = Pausing(
            guard=CircuitBreaker(share=0, window=1, probes=1), topics=("payments",)
        )
        context = IntakeContext(
            settings=load(),
            worker_id="me",
            status_writer=StatusWriter(),  # type: ignore[arg-type]
            buffer=self.buffer,
            may_take=lambda: True,
            wake=lambda: None,
            on_end=lambda error: None,
            gates=[self.pausing],
        )
        self.intake = Intake(
            context,
            registry.handlers,
            open_source=lambda: self.source,  # type: ignore[arg-type, return-value]
        )


@pytest.fixture
def scene() -> Iterator[Scene]:
    """Yield a scene whose intake ends with the test."""
    made = Scene()
    yield made
    made.intake.leave()
    assert made.intake.has_left(60)


def test_a_paused_topic_is_left_and_what_a_poll_had_brought_goes_back(scene: Scene) -> None:
    scene.pausing.learn([STOP])
    scene.intake.start()
    eventually(lambda: scene.source.polls >= 3, timeout_s=30)
    assert set(scene.source.left) == {frozenset({"payments"})}
    assert scene.source.rewound == {("payments", 3): 0}
    assert (len(scene.buffer), scene.source.committed) == (0, {})


def test_it_is_read_on_from_there_when_it_goes_on(scene: Scene) -> None:
    scene.intake.start()
    eventually(lambda: len(scene.buffer) >= 2, timeout_s=30)
    scene.pausing.learn([STOP])
    eventually(lambda: scene.source.rewound, timeout_s=30)
    came_in = len(scene.buffer)
    scene.pausing.learn([])
    eventually(lambda: len(scene.buffer) > came_in + 2, timeout_s=30)
    offsets = [one.record.offset for one in scene.buffer.waiting]
    assert offsets == list(range(len(offsets)))
    assert scene.source.left[-1] == frozenset()
