"""What collapses waits for others of its key before it runs, and not for long."""

from __future__ import annotations

from consumer.handlers.delivery import Delivery
from consumer.intake.buffer import Buffer
from consumer.intake.gate import Gate
from consumer.loop.order.key_queues import GATHER_S, QUIET_S, KeyQueues
from consumer.loop.scheduler import Scheduler
from tests.consumer.features.collapse.samples import TOPIC, asked
from tests.consumer.loop.order import samples as ordered
from tests.consumer.loop.order.samples import names
from tests.consumer.samples import payments

KEY = (TOPIC, b"k")


def always(topic: str) -> bool:
    return True


def gathered(queues: KeyQueues, now_s: float, *deliveries: Delivery) -> list[str]:
    return [one.request_id for one in deliveries if queues.gather(one, now_s)]


def test_the_first_of_a_key_waits_until_none_has_come_for_a_while() -> None:
    queues = KeyQueues(100)
    assert gathered(queues, 0.0, asked("a1")) == []
    assert queues.take(5, QUIET_S - 0.001, always) == []
    assert gathered(queues, QUIET_S - 0.001, asked("a2")) == []
    assert queues.next_look_s(QUIET_S, always) == 2 * QUIET_S - 0.001
    assert queues.take(5, QUIET_S, always) == []
    assert names(queues.take(5, 2 * QUIET_S, always)) == ["a1"]
    assert queues.names(KEY) == tuple(
        (one.request_id, f"{one.payload_sha256} {one.record.topic}", 0) for one in queues.waiting
    )
    assert names(queues.waiting) == ["a2"]


def test_a_stream_without_an_end_is_not_waited_for() -> None:
    queues = KeyQueues(1000)
    now_s, number = 0.0, 0
    while not (taken := queues.take(1, now_s, always)):
        number += 1
        gathered(queues, now_s, asked(f"a{number}"))
        now_s += QUIET_S / 5
    assert names(taken) == ["a1"]
    assert GATHER_S <= now_s <= GATHER_S + QUIET_S


def test_what_comes_while_the_key_is_taken_waits_and_another_key_does_not_wait_for_it() -> None:
    queues = KeyQueues(100)
    first = asked("a1")
    gathered(queues, 0.0, first)
    (head,) = queues.take(5, 1.0, always)
    queues.note([head])
    assert gathered(queues, 1.0, asked("a2"), asked("b1", b"b")) == []
    assert names(queues.take(5, 2.0, always)) == ["b1"]
    queues.note([])
    assert names(queues.take(5, 2.0, always)) == ["a2"], "its time to gather is over"


def test_the_next_one_runs_at_once_where_the_first_has_failed() -> None:
    queues = KeyQueues(100)
    gathered(queues, 0.0, asked("a1"), asked("a2"))
    (head,) = queues.take(5, 1.0, always)
    queues.note([head])
    queues.note([])
    assert queues.next_look_s(1.0, always) == 1.0
    assert names(queues.take(5, 1.0, always)) == ["a2"]


def test_what_has_no_key_or_is_in_hand_or_wakes_does_not_gather() -> None:
    queues = KeyQueues(100)
    (first,) = (asked("a1"),)
    gathered(queues, 0.0, first)
    queues.take(5, 1.0, always)
    again, due = asked("a1", attempt=2), asked("a9", wakes=1)
    free = asked("n", None)
    assert gathered(queues, 1.0, again, due, free) == ["a1", "a9", "n"]


def test_what_has_ended_in_its_lane_leaves_it_and_an_empty_lane_is_forgotten() -> None:
    queues = KeyQueues(2)
    one, two = asked("a1"), asked("a2")
    gathered(queues, 0.0, one, two)
    assert queues.full == {TOPIC}
    queues.drop([two])
    queues.drop([two, asked("b1", b"b"), asked("n", None)])
    assert (names(queues.waiting), len(queues), queues.full) == (["a1"], 1, frozenset())
    queues.drop([one])
    assert queues.next_look_s(5.0, always) is None
    assert queues.take(5, 5.0, always) == []
    assert gathered(queues, 5.0, asked("a3")) == []
    assert names(queues.take(5, 6.0, always)) == ["a3"]


def test_those_names_what_still_waits_of_what_waited() -> None:
    queues = KeyQueues(100)
    gathered(queues, 0.0, asked("a1"), asked("a2"), asked("a3"))
    known = queues.names(KEY)
    queues.take(1, 1.0, always)
    gathered(queues, 1.0, asked("a4"))
    assert names(queues.those(KEY, known)) == ["a2", "a3"]
    assert queues.those((TOPIC, b"other"), known) == []
    assert queues.names((TOPIC, b"other")) == ()


class Scene:
    """A scheduler of a topic that collapses, beside another one."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.buffer = Buffer(4)
        self.scheduler = Scheduler(self.buffer, gates=[self.gate], gathering=[TOPIC])


def test_all_that_the_buffer_has_of_the_topic_goes_to_its_key_though_no_slot_is_free() -> None:
    scene = Scene()
    other = ordered.asked("o1", topic="orders")
    other = other._replace(handler=payments(topic="orders"))
    free = asked("n", None)
    scene.buffer.put([asked("a1"), other, asked("a2"), free])
    scene.scheduler.gather(0.0)
    assert [one.request_id for one in scene.buffer.waiting] == ["o1", "n"]
    assert names(scene.scheduler.key_queues.waiting) == ["a1", "a2"]
    assert [one.request_id for one in scene.scheduler.take(5, 0.0, [])] == ["o1", "n"]
    assert [one.request_id for one in scene.scheduler.take(5, 1.0, [])] == ["a1"]


def test_a_paused_topic_is_left_where_it_is_and_gathers_afterwards() -> None:
    scene = Scene()
    scene.gate.closed = frozenset({TOPIC})
    scene.buffer.put([asked("a1"), asked("a2")])
    scene.scheduler.gather(0.0)
    assert scene.scheduler.take(5, 0.0, []) == []
    scene.buffer.put([asked("a3")])
    scene.gate.closed = frozenset()
    scene.scheduler.gather(10.0)
    assert scene.scheduler.take(5, 10.0, []) == []
    assert names(scene.scheduler.key_queues.waiting) == ["a1", "a2", "a3"]
    assert [one.request_id for one in scene.scheduler.take(5, 11.0, [])] == ["a1"]


def test_a_handler_that_collapses_nothing_gathers_nothing() -> None:
    buffer = Buffer(4)
    scheduler = Scheduler(buffer)
    buffer.put([ordered.asked("a1"), ordered.asked("a2")])
    scheduler.gather(0.0)
    assert len(buffer) == 2
