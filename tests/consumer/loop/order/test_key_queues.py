"""Requests that wait for their key: who is next, and that no queue is forgotten."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace

import pytest

from consumer.handlers.declaration import Order
from consumer.handlers.delivery import Delivery
from consumer.handlers.order_keys import order_key
from consumer.loop import mapping
from consumer.loop.order.key_queues import LOOK_AFTER_S, KeyQueues
from feedback.records.envelope import FirstPlace
from tests.consumer.loop.order.samples import asked, names

LEAST_S, MOST_S = LOOK_AFTER_S


def always(topic: str) -> bool:
    return True


def never(topic: str) -> bool:
    return False


def admitted(queues: KeyQueues, *deliveries: Delivery) -> list[str]:
    return [one.request_id for one in deliveries if queues.admits(one)]


def test_of_a_key_only_the_first_may_be_claimed_and_other_keys_go_on() -> None:
    queues = KeyQueues(10)
    given = [asked("a1", b"a"), asked("a2", b"a"), asked("b1", b"b"), asked("a3", b"a")]
    assert admitted(queues, *given) == ["a1", "b1"]
    assert names(queues.waiting) == ["a2", "a3"]
    assert (len(queues), queues.held) == (2, {"payments": 2})


def test_what_has_no_key_or_a_handler_without_order_never_waits() -> None:
    queues = KeyQueues(10)
    free = [asked("a", None), asked("b", None), asked("c", order=Order.NONE)]
    free.append(asked("d", order=Order.NONE))
    assert admitted(queues, *free) == ["a", "b", "c", "d"]
    assert not queues.waiting
    assert order_key(free[0]) is None
    assert order_key(free[2]) is None


def test_an_empty_key_is_a_key_and_the_same_key_of_another_topic_is_another() -> None:
    queues = KeyQueues(10)
    assert admitted(queues, asked("a", b""), asked("b", b"")) == ["a"]
    assert order_key(asked("a", b"k")) == order_key(asked("b", b"k"))
    assert order_key(asked("a", b"k")) != order_key(asked("a", b"l"))


def test_the_next_one_of_a_key_is_ready_when_the_first_is_out_of_hand_and_not_before() -> None:
    queues = KeyQueues(10)
    first = asked("a1")
    admitted(queues, first, asked("a2"), asked("a3"))
    queues.note([first])
    assert queues.take(5, 0.0, always) == []
    assert queues.next_look_s(0.0, always) is None
    queues.note([])
    assert queues.next_look_s(7.0, always) == 7.0
    assert names(queues.take(5, 7.0, always)) == ["a2"]
    assert queues.take(5, 7.0, always) == [], "a2 has the key by now"
    queues.note([])
    assert names(queues.take(5, 8.0, always)) == ["a3"]
    assert (len(queues), queues.waiting) == (0, [])


def test_what_comes_while_others_of_its_key_wait_goes_behind_them_though_nothing_runs() -> None:
    queues = KeyQueues(10)
    admitted(queues, asked("a1"), asked("a2"))
    queues.note([])
    assert admitted(queues, asked("a3")) == []
    assert names(queues.take(1, 0.0, always)) == ["a2"]


def test_not_more_are_taken_than_there_is_room_for_and_the_rest_stays_ready() -> None:
    queues = KeyQueues(10)
    admitted(queues, *(asked(f"{key}{number}", key.encode()) for key in "abc" for number in "12"))
    queues.note([])
    assert names(queues.take(2, 0.0, always)) == ["a2", "b2"]
    assert names(queues.take(0, 0.0, always)) == []
    assert names(queues.take(2, 0.0, always)) == ["c2"]


def test_what_the_journal_holds_back_stays_first_and_is_looked_at_again_after_a_while() -> None:
    queues = KeyQueues(10)
    first = asked("a1")
    admitted(queues, first, asked("a2"))
    queues.hold_back(first, now_s=100.0, for_s=0.0)
    queues.note([])
    assert names(queues.waiting) == ["a1", "a2"]
    assert queues.take(5, 100.0 + LEAST_S - 0.01, always) == []
    assert queues.next_look_s(100.0, always) == 100.0 + LEAST_S
    assert names(queues.take(5, 100.0 + LEAST_S, always)) == ["a1"]


@pytest.mark.parametrize(("for_s", "after_s"), [(2.0, 2.0), (3600.0, MOST_S), (0.01, LEAST_S)])
def test_it_is_looked_at_again_when_its_holder_is_due_within_limits(
    for_s: float, after_s: float
) -> None:
    queues = KeyQueues(10)
    first = asked("a1")
    admitted(queues, first)
    queues.hold_back(first, now_s=100.0, for_s=for_s)
    assert queues.next_look_s(100.0, always) == 100.0 + after_s


def test_it_is_looked_at_at_once_when_what_holds_it_ends_here() -> None:
    queues = KeyQueues(10)
    held, due = asked("a2"), asked("a1", wakes=1)
    admitted(queues, held)
    queues.hold_back(held, now_s=100.0, for_s=60.0)
    queues.note([])
    assert admitted(queues, due) == ["a1"], "a retry that is due is what the key waits for"
    queues.note([due])
    assert queues.take(5, 200.0, always) == [], "it runs"
    queues.note([])
    assert names(queues.take(5, 100.1, always)) == ["a2"]


def test_a_key_that_is_taken_when_its_look_is_due_is_free_when_it_is_let_go() -> None:
    queues = KeyQueues(10)
    held, due = asked("a2"), asked("a1", wakes=1)
    admitted(queues, held)
    queues.hold_back(held, now_s=100.0, for_s=0.0)
    queues.note([due])
    assert queues.next_look_s(300.0, always) is None
    queues.note([])
    assert names(queues.take(5, 300.0, always)) == ["a2"]


def test_what_is_sent_again_while_it_is_in_hand_is_let_through_to_be_answered() -> None:
    queues = KeyQueues(10)
    assert admitted(queues, asked("a1"), asked("a1", attempt=2)) == ["a1", "a1"]


def test_what_is_sent_again_while_it_waits_keeps_its_place_and_takes_no_second_one() -> None:
    queues = KeyQueues(10)
    first, later = asked("a2"), asked("a2", attempt=3)
    admitted(queues, asked("a1"), first, asked("a3"), later, asked("a2", attempt=2))
    assert names(queues.waiting) == ["a2", "a3"]
    (kept, _) = queues.waiting
    assert (kept.record.offset, kept.envelope.attempt) == (first.record.offset, 3)
    assert len(queues) == 2


def test_what_is_sent_again_while_it_waits_keeps_the_deadline_of_its_record() -> None:
    queues = KeyQueues(10)
    first, again = asked("a2"), asked("a2", attempt=2)
    sent = again._replace(envelope=again.envelope._replace(deadline_at=5, reopens=3), deadline_at=5)
    admitted(queues, asked("a1"), first, sent)
    (kept,) = queues.waiting
    assert (kept.envelope.attempt, kept.envelope.reopens) == (2, 3)
    assert (kept.envelope.deadline_at, kept.deadline_at) == (None, first.deadline_at)
    assert mapping.claim(kept).sent_at == first.record.timestamp_ms


@pytest.mark.parametrize("later", [None, FirstPlace("payments", 3, 40)])
def test_a_resend_that_waits_still_says_which_record_it_repeats_when_it_is_sent_again(
    later: FirstPlace | None,
) -> None:
    queues = KeyQueues(10)
    known, again = asked("a2", attempt=2), asked("a2", attempt=3)
    known = known._replace(envelope=known.envelope._replace(first=FirstPlace("payments", 3, 5, -1)))
    again = again._replace(envelope=again.envelope._replace(first=later))
    admitted(queues, asked("a1"), known, again)
    (kept,) = queues.waiting
    assert (kept.envelope.attempt, kept.envelope.first) == (3, FirstPlace("payments", 3, 5, -1))


def test_the_same_id_with_another_payload_waits_for_its_own_verdict() -> None:
    queues = KeyQueues(10)
    admitted(queues, asked("a1"), asked("a2"), asked("a2", value=b"other"))
    assert names(queues.waiting) == ["a2", "a2"]


def test_two_that_are_held_back_together_wait_once_each() -> None:
    queues = KeyQueues(10)
    first, again = asked("a1"), asked("a1", attempt=2)
    admitted(queues, first, again)
    queues.hold_back(first, now_s=0.0, for_s=0.0)
    queues.hold_back(again, now_s=0.0, for_s=0.0)
    queues.note([])
    (kept,) = queues.take(5, 10.0, always)
    assert kept.envelope.attempt == 2


def test_heads_of_a_topic_that_is_not_taken_wait_and_cost_no_spinning() -> None:
    queues = KeyQueues(10)
    admitted(queues, asked("a1"), asked("a2"))
    queues.note([])
    assert queues.take(5, 0.0, never) == []
    assert queues.next_look_s(0.0, never) is None
    assert names(queues.take(5, 0.0, always)) == ["a2"]


def test_everything_can_be_given_up_and_the_lanes_are_as_new() -> None:
    queues = KeyQueues(10)
    held = asked("b1", b"b")
    admitted(queues, asked("a1"), asked("a2"), asked("a3"), held)
    queues.hold_back(held, now_s=0.0, for_s=0.0)
    assert sorted(names(queues.take_all())) == ["a2", "a3", "b1"]
    assert (len(queues), queues.waiting, queues.next_look_s(100.0, always)) == (0, [], None)
    queues.note([])
    assert queues.take(5, 100.0, always) == []
    assert admitted(queues, asked("a4"), asked("b2", b"b")) == ["a4", "b2"]


def of_another_topic(request_id: str) -> Delivery:
    one = asked(request_id)
    return one._replace(handler=replace(one.handler, topic="refunds"))


def test_a_topic_is_full_at_the_limit_and_until_half_of_it_has_gone_and_no_other_is() -> None:
    queues = KeyQueues(4)
    given = [*(asked(f"a{number}") for number in range(6)), of_another_topic("b0")]
    given.append(of_another_topic("b1"))
    fulls = []
    for one in given:
        queues.admits(one)
        fulls.append(queues.full)
    assert fulls == [frozenset()] * 4 + [frozenset({"payments"})] * 4
    assert queues.held == {"payments": 5, "refunds": 1}, "what was read is taken in all the same"
    left = []
    while queues.held["payments"]:
        queues.note([])
        queues.take(1, 0.0, lambda topic: topic == "payments")
        left.append((queues.held["payments"], bool(queues.full)))
    assert left == [(4, True), (3, True), (2, False), (1, False), (0, False)]


def test_what_is_given_up_leaves_no_topic_full() -> None:
    queues = KeyQueues(1)
    admitted(queues, asked("a1"), asked("a2"))
    assert queues.full == {"payments"}
    queues.take_all()
    assert (queues.full, queues.held, len(queues)) == (frozenset(), {"payments": 0}, 0)


@pytest.mark.parametrize("seed", range(30))
def test_whatever_happens_each_key_runs_in_order_one_at_a_time_and_all_of_it_runs(
    seed: int,
) -> None:
    """A worker whose requests end, fail, are held back and sent again at random."""
    dice = random.Random(seed)
    queues = KeyQueues(1000)
    coming = [asked(f"{number}", bytes([dice.randrange(4)])) for number in range(60)]
    in_hand: list[Delivery] = []
    ran: dict[bytes | None, list[int]] = defaultdict(list)
    now_s = 0.0
    while coming or in_hand or len(queues):
        now_s += dice.choice([0.0, 0.1, 1.0])
        queues.note(in_hand)
        taken = queues.take(dice.randrange(3), now_s, always)
        if coming and dice.random() < 0.7:
            one = coming.pop(0)
            taken += [one] if queues.admits(one) else []
            if dice.random() < 0.2:
                again = one._replace(envelope=one.envelope._replace(attempt=2))
                if queues.admits(again):
                    lanes_in_hand = [each.request_id for each in [*in_hand, *taken]]
                    assert again.request_id in lanes_in_hand
        for one in taken:
            keys = [each.record.key for each in in_hand]
            assert one.record.key not in keys, "two of a key at once"
            if dice.random() < 0.2:
                queues.hold_back(one, now_s=now_s, for_s=dice.random())
            else:
                in_hand.append(one)
                ran[one.record.key].append(one.record.offset)
        if in_hand and dice.random() < 0.5:
            in_hand.pop(dice.randrange(len(in_hand)))
        assert now_s < 10_000, "a queue was forgotten"
    assert sum(map(len, ran.values())) == 60
    assert all(offsets == sorted(offsets) for offsets in ran.values())


def test_a_topic_is_full_of_large_requests_as_well_until_half_of_their_bytes_have_gone() -> None:
    queues = KeyQueues(1000, limit_bytes=1000)
    large = [
        one._replace(record=one.record._replace(value=b"v" * 300))
        for one in (asked(f"a{number}") for number in range(5))
    ]
    assert queues.admits(large[0])
    for one in large[1:4]:
        assert not queues.admits(one)
    assert queues.full == frozenset()
    assert not queues.admits(large[4])
    assert queues.full == {large[0].handler.topic}
    queues.drop(large[1:3])
    assert queues.full == {large[0].handler.topic}
    queues.drop(large[3:4])
    assert queues.full == frozenset()
