"""What is claimed next: the order of what waits, the limit, and topics that are paused."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from consumer.handlers.declaration import Order
from consumer.handlers.delivery import Delivery, RefusedRecord
from consumer.intake.buffer import Buffer
from consumer.intake.gate import Gate
from consumer.loop.scheduler import Scheduler
from feedback.logs import event_of
from tests.consumer.loop.order.samples import asked, names


class Changing(Gate):
    """A gate that answers otherwise each time, and is open in the end."""

    def __init__(self, answers: list[frozenset[str]]) -> None:
        self._answers = answers

    @property
    def closed(self) -> frozenset[str]:  # type: ignore[override]
        return self._answers.pop(0) if self._answers else frozenset()


class Scene:
    """A scheduler between two buffers, and the topics that are paused."""

    def __init__(self, limit: int = 100) -> None:
        self.buffer, self.due = Buffer(100), Buffer(100)
        self.gate = Gate()
        self.scheduler = Scheduler(
            self.buffer,
            self.due,
            order_held_limit=limit,
            gates=[self.gate],
        )
        self.in_hand: list[Delivery] = []
        self.now_s = 1000.0

    def take(self, room: int = 10) -> list[str]:
        """Take, keep in hand, and return the ids."""
        self.now_s += 1.0
        taken = self.scheduler.take(room, self.now_s, self.in_hand)
        self.in_hand += [one for one in taken if isinstance(one, Delivery)]
        return [one.request_id for one in taken]


def free(request_id: str, **facts: float) -> Delivery:
    return asked(request_id, order=Order.NONE, **facts)  # type: ignore[arg-type]


def test_due_retries_go_first_then_what_waited_for_its_key_and_then_the_buffer() -> None:
    scene = Scene()
    scene.buffer.put([asked("a1"), asked("a2"), free("x")])
    assert scene.take() == ["a1", "x"]
    scene.in_hand.clear()
    scene.buffer.put([free("y")])
    scene.due.put([free("due")])
    assert scene.take() == ["due", "a2", "y"]


def test_what_waits_for_its_key_takes_no_slot_from_others() -> None:
    scene = Scene()
    scene.buffer.put([*(asked(f"a{number}") for number in range(6)), free("x"), free("y")])
    assert scene.take(2) == ["a0", "x"]
    assert len(scene.scheduler.key_queues) == 5
    assert scene.take(1) == ["y"]


def test_at_the_limit_what_was_read_waits_in_its_order_and_everything_else_goes_on() -> None:
    scene = Scene(limit=3)
    scene.buffer.put([*(asked(f"a{number}") for number in range(8)), free("x")])
    assert scene.take() == ["a0", "x"]
    assert scene.scheduler.full == {"payments"}
    assert (len(scene.scheduler.key_queues), len(scene.buffer)) == (7, 0)
    scene.buffer.put([free("y")])
    assert scene.take() == ["y"]
    ended = []
    while scene.in_hand:
        ended += names(scene.in_hand)
        scene.in_hand.clear()
        scene.take()
    assert ended == ["a0", "x", "y", *(f"a{number}" for number in range(1, 8))]
    assert scene.scheduler.full == frozenset()


@pytest.mark.parametrize("seed", range(50))
def test_while_there_is_more_each_look_at_it_gets_on(seed: int) -> None:
    # The worker's loop does not pause while there is.
    draw, scene = Random(seed), Scene(limit=5)
    for number in range(60):
        topic, key = draw.choice(("payments", "refunds")), draw.choice((b"k", b"l", None))
        order = draw.choice((Order.KEY, Order.NONE))
        wakes = draw.choice((0, 0, 1))
        one = asked(f"r{number}", key, topic=topic, order=order, wakes=wakes)
        (scene.due if wakes else scene.buffer).put([one])
    while scene.scheduler.has_more:
        scene.gate.closed = frozenset(draw.sample(("payments", "refunds"), draw.randint(0, 2)))
        if draw.random() < 0.3:
            scene.in_hand.clear()
        before = len(scene.buffer) + len(scene.due)
        scene.now_s -= draw.choice((0.0, 1.0))  # the share of retries is looked at now and then
        taken = scene.take(draw.randint(1, 3))
        assert taken or len(scene.buffer) + len(scene.due) < before


def test_the_limit_is_told_once_and_its_end_as_well(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="onceward")
    scene = Scene(limit=2)
    scene.buffer.put([asked(f"a{number}") for number in range(4)])
    for _ in range(4):
        scene.take()
        scene.take()
        scene.in_hand.clear()
    told = [record for record in caplog.records if event_of(record).startswith("order.")]
    assert [event_of(one) for one in told] == ["order.full", "order.has_room"]
    assert [one.__dict__["onceward_fields"] for one in told] == [
        {"topic": "payments", "held": 3, "limit": 2},
        {"topic": "payments", "held": 1},
    ]


def test_a_paused_topic_is_put_aside_and_goes_first_when_it_is_resumed() -> None:
    scene = Scene()
    scene.buffer.put([free("a"), free("b")])
    scene.gate.closed = frozenset({"payments"})
    assert scene.take() == []
    assert (len(scene.scheduler), len(scene.buffer)) == (2, 0)
    scene.buffer.put([free("c")])
    scene.gate.closed = frozenset()
    assert scene.take(1) == ["a"]
    assert scene.take() == ["b", "c"]


def test_a_pause_that_ends_in_the_middle_lets_nothing_overtake_what_was_put_aside() -> None:
    closed = frozenset({"payments"})
    answers = [closed, closed, closed, frozenset()]
    buffer = Buffer(10)
    scheduler = Scheduler(buffer, gates=[Changing(answers)])
    buffer.put([free("a")])
    assert scheduler.take(1, 1.0, []) == []
    assert answers == [closed, frozenset()]
    buffer.put([free("b")])
    assert names(scheduler.take(2, 2.0, [])) == ["a", "b"]


def test_refused_records_of_a_paused_topic_get_their_rows() -> None:
    scene = Scene()
    scene.gate.closed = frozenset({"payments"})
    one = free("a")
    refused = RefusedRecord(one.record, "r", 1, "", 0, "INVALID_MESSAGE", "no")
    scene.buffer.put([refused])
    assert scene.take() == ["r"]


def test_retries_of_a_paused_topic_wait_and_those_of_others_go_on() -> None:
    scene = Scene()
    scene.gate.closed = frozenset({"payments"})
    other = free("o")
    other = other._replace(handler=replace(other.handler, topic="others"))
    scene.due.put([asked("a", wakes=1), other])
    assert scene.take() == ["o"]
    assert scene.scheduler.waiting == [], "a wake-up is no request that waits"
    scene.gate.closed = frozenset()
    assert scene.take() == ["a"]


def test_a_probe_is_one_request_of_the_paused_topic_that_may_be_claimed() -> None:
    scene = Scene()
    scene.buffer.put([asked("a1"), asked("a2"), asked("b1", b"b")])
    assert scene.take(1) == ["a1"]
    scene.gate.closed = frozenset({"payments"})
    scene.take()
    assert scene.scheduler.probe("elsewhere") is None
    found = scene.scheduler.probe("payments")
    assert found is not None
    assert found.request_id == "b1", "a2 waits for its key"
    assert scene.scheduler.probe("payments") is None
    scene.in_hand.clear()
    scene.take()
    found = scene.scheduler.probe("payments")
    assert found is not None
    assert found.request_id == "a2"


def test_what_waits_for_a_paused_topic_is_given_up_by_age_but_for_what_keeps_an_order() -> None:
    scene = Scene()
    scene.buffer.put([asked("a1"), asked("a2"), free("old", buffered_s=1.0)])
    scene.gate.closed = frozenset({"payments"})
    scene.buffer.put([free("new", buffered_s=9.0)])
    scene.take()
    assert names(scene.scheduler.take_aside_older_than(5.0)) == ["old"]
    assert names(scene.scheduler.waiting) == ["a1", "a2", "new"]
    assert scene.scheduler.take_stuck(10.0, 5.0) == []
    assert names(scene.scheduler.take_stuck(15.0, 5.0)) == ["a1", "a2", "new"]


def test_keys_that_another_worker_has_leave_half_of_the_room_to_others() -> None:
    scene = Scene()
    held = [asked(f"h{number}", bytes([number])) for number in range(6)]
    scene.buffer.put(held)
    assert len(scene.take()) == 6
    scene.in_hand.clear()
    for one in held:
        scene.scheduler.hold_back(one, now_s=scene.now_s, for_s=0.0)
    scene.buffer.put([free("x"), free("y"), free("z")])
    assert scene.take(4) == ["h0", "h1", "x", "y"]
    assert scene.take(4) == ["h2", "h3", "z"]
    assert scene.take(4) == ["h4", "h5"]


def test_a_short_outage_of_the_journal_gives_up_nothing_that_waits_for_its_key() -> None:
    scene = Scene()
    scene.buffer.put([asked("a1"), asked("a2")])
    scene.take()
    assert scene.scheduler.take_stuck(5000.0, 30.0) == []
    assert scene.scheduler.take_stuck(5029.0, 30.0) == []
    scene.scheduler.goes_on()
    assert scene.scheduler.take_stuck(5031.0, 30.0) == []
    assert names(scene.scheduler.take_stuck(5061.0, 30.0)) == ["a2"]


def test_all_that_waits_is_seen_and_can_be_given_up() -> None:
    scene = Scene()
    scene.buffer.put([asked("a1"), asked("a2")])
    scene.take()
    scene.buffer.put([free("x")])
    assert names(scene.scheduler.waiting) == ["a2", "x"]
    assert names(scene.scheduler.take_all()) == ["a2", "x"]
    assert len(scene.scheduler) == 0


def test_no_time_is_named_for_a_look_when_nothing_waits_for_a_key() -> None:
    scene = Scene()
    assert scene.scheduler.next_s(0.0, []) is None
    scene.buffer.put([asked("a1"), asked("a2")])
    scene.take()
    assert scene.scheduler.next_s(7.0, scene.in_hand) is None
    assert scene.scheduler.next_s(7.0, []) == 7.0
