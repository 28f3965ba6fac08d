"""The bounded buffer between the thread that reads and the loop that claims."""

import threading

from consumer.handlers.delivery import mismatch
from consumer.intake.buffer import Buffer
from tests.consumer.samples import delivery


def test_the_oldest_leave_first_and_no_more_than_asked_for() -> None:
    buffer = Buffer(8)
    waiting = [delivery(name) for name in "abc"]
    buffer.put(waiting)
    assert buffer.take(2) == waiting[:2]
    assert buffer.take(9) == waiting[2:]
    assert buffer.take(1) == []


def test_room_is_what_the_limit_leaves_and_never_negative() -> None:
    buffer = Buffer(2)
    buffer.put([delivery("a")])
    assert (len(buffer), buffer.room) == (1, 1)
    buffer.put([delivery("b"), delivery("c")])
    assert (len(buffer), buffer.room) == (3, 0)


def test_those_that_waited_too_long_leave_and_the_younger_stay() -> None:
    buffer = Buffer(8)
    old, young = delivery("a", buffered_s=1.0), delivery("b", buffered_s=9.0)
    buffer.put([old, young])
    assert buffer.take_older_than(5.0) == [old]
    assert buffer.take(8) == [young]


def test_a_refused_record_is_never_given_up_for_its_age() -> None:
    buffer = Buffer(8)
    refused = mismatch(delivery("a", buffered_s=1.0))
    buffer.put([refused])
    assert buffer.take_older_than(5.0) == []
    assert buffer.take(1) == [refused]


def test_what_waits_behind_a_refused_record_is_given_up_all_the_same() -> None:
    buffer = Buffer(8)
    refused, old = mismatch(delivery("a", buffered_s=1.0)), delivery("b", buffered_s=1.0)
    young = delivery("c", buffered_s=9.0)
    buffer.put([refused, old, young])
    assert buffer.take_older_than(5.0) == [old]
    assert buffer.take(8) == [refused, young]


def test_whoever_waits_for_room_is_woken_when_there_is_enough() -> None:
    buffer = Buffer(2)
    buffer.put([delivery("a"), delivery("b")])
    found: list[bool] = []
    waiting = threading.Thread(target=lambda: found.append(buffer.wait_for_room(30.0, at_least=2)))
    waiting.start()
    buffer.take(1)
    assert not found
    buffer.take(1)
    waiting.join(60)
    assert found == [True]


def test_a_wait_for_room_ends_at_its_timeout() -> None:
    buffer = Buffer(1)
    buffer.put([delivery("a")])
    assert not buffer.wait_for_room(0.01)
    assert Buffer(1).wait_for_room(0.01)
