"""Requests between their poll and the buffer: who sees them while Kafka or Redis is awaited."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from consumer.handlers.declaration import Handler, Order
from consumer.handlers.delivery import Delivery
from consumer.handlers.registry import HandlerRegistry
from consumer.intake.buffer import Buffer
from consumer.intake.context import IntakeContext
from consumer.intake.intake import Intake
from consumer.loop.in_flight import InFlight
from consumer.loop.in_hand import InHand
from consumer.loop.order.key_queues import GATHER_S
from consumer.loop.scheduler import Scheduler
from feedback.kafka.values import Partition
from feedback.records.envelope import Record
from feedback.settings.settings import load
from feedback.status import RefusalReason, State
from feedback.statuses import Refused
from tests.consumer.features.collapse.samples import TOPIC, collapsing
from tests.consumer.loop.order.samples import names
from tests.consumer.samples import delivery, named, payments

HERE = ("payments", 3)
KNOWN = Refused(RefusalReason.GENERATION, State.RUNNING, 1, 1, False)


def nothing() -> None:
    """Let nothing happen meanwhile."""


class Source:
    """Records of one poll.

    Attributes:
        applied: called when the broker has a commit, before that is known here.
    """

    spacing_s = 0.0
    owned = frozenset({HERE})

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = [*records]
        self.applied: Callable[[], None] = nothing

    def poll(self, timeout_s: float, *, max_records: int) -> list[Record]:
        found, self._records = self._records, []
        return found

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        self.applied()

    def take_revoked(self) -> set[Partition]:
        return set()

    def leave(self, topics: frozenset[str]) -> None:
        assert not topics

    def pause(self) -> None:
        """Go on all the same."""

    resume = pause


class Statuses:
    """A Redis that is slower than Kafka.

    Attributes:
        known: its answer to each status.
        awaited: called before it answers.
    """

    def __init__(self) -> None:
        self.known: list[Refused | None] = []
        self.awaited: Callable[[], None] = nothing

    @contextmanager
    def telling(self, statuses: object) -> Iterator[list[Refused | None]]:
        answers: list[Refused | None] = []
        yield answers
        self.awaited()
        answers += self.known


class Scene:
    """An intake that reads these records in one turn, beside another one of the same worker."""

    def __init__(self, handler: Handler, *records: Record) -> None:
        registry = HandlerRegistry()
        registry.add(handler)
        self.source, self.statuses, self.buffer = Source(records), Statuses(), Buffer(100)
        gathering = [] if handler.collapse is None else [handler.topic]
        self.scheduler = Scheduler(self.buffer, gathering=gathering)
        self.in_hand = InHand("me", self.scheduler, InFlight())
        context = IntakeContext(
            settings=load(),
            worker_id="me",
            status_writer=self.statuses,  # type: ignore[arg-type]
            buffer=self.buffer,
            may_take=lambda: True,
            wake=lambda: None,
            on_end=lambda error: None,
        )
        source: Any = self.source
        self._intake = Intake(context, registry.handlers, open_source=lambda: source)
        self.handed_over: list[Mapping[Partition, int]] = []

    def read(self) -> None:
        """Take the turn."""
        source: Any = self.source
        self._intake._turn(source)

    def rebalance(self) -> None:
        """Take the partition away."""
        self.handed_over.append(self.in_hand.first_unclaimed({HERE}))

    def put_another(self) -> None:
        """Have another reader of the worker bring something."""
        self.buffer.put([delivery("another")])


def ordered(*records: Record) -> Scene:
    return Scene(payments(order=Order.KEY), *records)


def sent(request_id: str, offset: int, key: bytes | None = b"k") -> Record:
    return named(request_id)._replace(offset=offset, key=key)


def test_a_rebalance_hands_over_what_is_committed_while_redis_is_awaited() -> None:
    scene = ordered(sent("a", 10))
    scene.statuses.awaited = scene.rebalance
    scene.read()
    scene.rebalance()
    assert scene.handed_over == [{HERE: 10}] * 2


def test_what_another_reader_brings_meanwhile_hides_nothing() -> None:
    scene = ordered(sent("a", 10))

    def awaited() -> None:
        scene.put_another()
        with scene.buffer.arrival([delivery("third")]):
            pass
        scene.rebalance()

    scene.statuses.awaited = awaited
    scene.read()
    assert scene.handed_over == [{HERE: 10}]


def test_a_rebalance_between_a_commit_and_its_answer_misses_nothing() -> None:
    scene = ordered(sent("a", 10))
    scene.source.applied = scene.rebalance
    scene.read()
    assert scene.handed_over == [{HERE: 10}]


def test_nothing_in_front_of_the_first_ordered_request_is_passed_over() -> None:
    # If the commit is never made, nobody has read them: they keep no order, and are to run.
    malformed = sent("b", 10)._replace(headers=(("onceward-attempt", b"none"),))
    scene = ordered(sent("free", 9, key=None), malformed, sent("a", 11))
    scene.source.applied = scene.rebalance
    scene.read()
    scene.rebalance()
    assert scene.handed_over == [{HERE: 9}, {HERE: 11}]


def test_what_keeps_no_order_is_handed_over_by_its_commit_alone() -> None:
    scene = ordered(sent("free", 9, key=None))
    scene.source.applied = scene.rebalance
    scene.read()
    assert scene.handed_over == [{}]


def test_the_statuses_of_what_arrives_are_known_to_a_redis_that_came_back_empty() -> None:
    scene = ordered(sent("a", 10))
    found: list[str] = []
    scene.statuses.awaited = lambda: found.extend(
        one.request_id for one in scene.in_hand.statuses()
    )
    scene.read()
    assert found == ["a"]


def test_an_arrival_ends_with_its_block_however_that_ends() -> None:
    buffer, one = Buffer(4), delivery("a")
    try:
        with buffer.arrival([one]):
            assert (buffer.arriving, buffer.waiting, len(buffer)) == ([one], [], 0)
            raise ZeroDivisionError
    except ZeroDivisionError:
        assert buffer.arriving == []


def of(scene: Scene, taken: Sequence[object]) -> list[Delivery]:
    return [one for one in taken if isinstance(one, Delivery) and one.handler.topic == TOPIC]


def test_the_loop_takes_nothing_before_redis_has_said_whether_it_is_known() -> None:
    scene = Scene(collapsing(), sent("x", 10))
    scene.buffer.put([delivery("another")._replace(handler=payments(topic="other"))])
    scene.statuses.known = [KNOWN]
    scene.statuses.awaited = lambda: scene.scheduler.gather(0.0)
    scene.read()
    scene.scheduler.gather(0.0)
    (found,) = of(scene, scene.scheduler.take(8, 2 * GATHER_S, []))
    assert (found.request_id, found.may_have_run) == ("x", True)


def test_one_record_is_claimed_once_though_redis_answers_after_the_run() -> None:
    scene = Scene(collapsing(), sent("x", 10))
    scene.buffer.put([delivery("another")._replace(handler=payments(topic="other"))])
    taken: list[Delivery] = []

    def turn() -> None:
        scene.scheduler.gather(0.0)
        taken.extend(of(scene, scene.scheduler.take(8, 2 * GATHER_S, [])))
        scene.scheduler.key_queues.note([])

    scene.statuses.awaited = turn
    scene.read()
    turn()
    assert names(taken) == ["x"]
