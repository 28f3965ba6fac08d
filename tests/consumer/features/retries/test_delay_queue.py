"""What is held of the retry topics: who is next, and what may be committed."""

from hypothesis import given
from hypothesis import strategies as st

from consumer.features.retries.delay_queue import WINDOW, WINDOW_BYTES, DelayQueue, WaitingWakeup
from tests.consumer.samples import delivery, payments

ONE, OTHER = ("t.g.retry.1s", 0), ("t.g.retry.5s", 0)


def _held(due_s: float, *, size_bytes: int = 1, name: str = "a") -> WaitingWakeup:
    return WaitingWakeup(due_s, delivery(name), size_bytes)


def test_nothing_goes_on_before_it_is_due_and_the_longest_overdue_goes_first() -> None:
    waiting = DelayQueue()
    waiting.add(ONE, 0, _held(10.0))
    waiting.add(OTHER, 0, _held(5.0))
    waiting.add(OTHER, 1, _held(11.0))
    assert waiting.next_due_s() == 5.0
    assert waiting.take_due(4.999, 9) == []
    assert [place for place, _, _ in waiting.take_due(10.0, 1)] == [OTHER]
    assert [place for place, _, _ in waiting.take_due(10.5, 9)] == [ONE]
    assert len(waiting) == 1


def test_what_may_be_committed_ends_before_the_first_that_waits() -> None:
    waiting = DelayQueue()
    for offset, due_s in ((4, 9.0), (5, 1.0), (6, 2.0)):
        waiting.add(ONE, offset, _held(due_s))
    assert len(waiting.take_due(3.0, 9)) == 2
    assert waiting.offsets() == {ONE: 4}
    waiting.take_due(9.0, 9)
    assert waiting.offsets() == {ONE: 7}


def test_a_record_that_wakes_nothing_is_passed() -> None:
    waiting = DelayQueue()
    waiting.skip(ONE, 8)
    assert waiting.offsets() == {ONE: 9}
    waiting.add(ONE, 9, _held(1.0))
    waiting.skip(ONE, 10)
    assert waiting.offsets() == {ONE: 9}


def test_partitions_of_which_enough_is_held_are_full_and_others_are_not() -> None:
    waiting = DelayQueue()
    for offset in range(WINDOW):
        waiting.add(ONE, offset, _held(9.0))
    waiting.add(OTHER, 0, _held(1.0, size_bytes=WINDOW_BYTES))
    assert waiting.full() == {ONE, OTHER}
    waiting.take_due(1.0, 1)
    assert waiting.full() == {ONE}


def test_a_partition_that_is_forgotten_leaves_the_others_as_they_are() -> None:
    waiting = DelayQueue()
    waiting.add(ONE, 3, _held(1.0))
    waiting.add(OTHER, 5, _held(2.0))
    waiting.forget({ONE})
    assert waiting.offsets() == {OTHER: 5}
    assert waiting.next_due_s() == 2.0


def test_a_record_that_is_read_again_is_held_once() -> None:
    waiting = DelayQueue()
    for _ in range(3):
        waiting.add(ONE, 0, _held(1.0, size_bytes=WINDOW_BYTES // 2))
    assert (len(waiting), waiting.full()) == (1, set())


@given(st.lists(st.floats(0, 100), max_size=30), st.lists(st.floats(0, 100), max_size=10))
def test_whatever_the_order_nothing_is_early_nothing_is_lost_and_commits_never_pass_it(
    dues: list[float], looks: list[float]
) -> None:
    waiting = DelayQueue()
    for offset, due_s in enumerate(dues):
        waiting.add(ONE, offset, _held(due_s))
    gone: set[int] = set()
    for now_s in [*sorted(looks), 100.0]:
        for _, offset, _ in waiting.take_due(now_s, 5 if now_s < 100 else 99):
            assert dues[offset] <= now_s
            gone.add(offset)
        committed = waiting.offsets().get(ONE, 0)
        assert gone.issuperset(range(committed))
    assert gone == set(range(len(dues)))


def test_what_may_not_go_on_stays_and_holds_up_nobody_else() -> None:
    waiting = DelayQueue()
    paused = _held(1.0, name="paused")
    paused = paused._replace(
        delivery=paused.delivery._replace(handler=payments(topic="refunds")),
    )
    waiting.add(ONE, 0, paused)
    waiting.add(ONE, 1, _held(2.0, name="b"))
    waiting.add(OTHER, 0, _held(3.0, name="c"))

    def names(most: int) -> list[str]:
        taken = waiting.take_due(9.0, most, lambda topic: topic != "refunds")
        return [one.request_id for _, _, one in taken]

    assert waiting.next_due_s({"refunds"}) == 2.0
    assert names(1) == ["b"]
    assert names(9) == ["c"]
    assert waiting.next_due_s({"refunds"}) is None
    assert waiting.next_due_s() == 1.0
    # It is read again by the next owner of the partition.
    assert waiting.offsets() == {ONE: 0, OTHER: 1}
