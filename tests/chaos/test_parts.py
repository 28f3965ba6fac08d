"""The parts of the harness: orders, figures, flow, hits, table."""

from dataclasses import replace

import pytest

from feedback.status import State
from tests.chaos.after_word import MOST_AFTER_NOT_SENT, Due, Then, Word, then_after
from tests.chaos.children import Kill, hit_waits
from tests.chaos.figure import Figure
from tests.chaos.flow import longest_gap_s, resumed_after_s, slowest_place_s
from tests.chaos.orders import Deed, Kind, Order, OrderBook
from tests.chaos.rows import ROWS
from tests.chaos.tickets import Ticket
from tests.kit.banking import Begin


def test_orders_are_the_same_for_a_seed_and_others_for_another() -> None:
    book = OrderBook("row", 1)

    assert [book.order(n) for n in range(50)] == [OrderBook("row", 1).order(n) for n in range(50)]
    assert [book.order(n).takes_ms for n in range(50)] != [
        OrderBook("row", 2).order(n).takes_ms for n in range(50)
    ]


def test_orders_are_of_all_kinds_and_some_misbehave() -> None:
    book = OrderBook("row", 1, troubles={Deed.HANG: 0.1, Deed.BUSY: 0.1})
    orders = [book.order(number) for number in range(500)]

    assert {order.kind for order in orders} == set(Kind)
    assert {order.deed for order in orders} == {Deed.CHARGE, Deed.REJECT, Deed.BUSY, Deed.HANG}
    assert all(5 <= order.takes_ms <= 100 for order in orders)


@pytest.mark.parametrize(
    ("figure", "met"),
    [
        (Figure("x", 1.0, most=1.0), True),
        (Figure("x", 1.1, most=1.0), False),
        (Figure("x", 0.7, least=0.8), False),
        (Figure("x", float("inf"), most=7.0), False),
    ],
)
def test_a_figure_is_met_within_its_bounds(figure: Figure, met: bool) -> None:
    assert figure.met is met


def begin(request_id: str, at_s: float, pid: int = 1) -> Begin:
    return Begin(request_id, pid, at_s)


def test_a_stop_of_work_is_a_gap_also_at_either_end() -> None:
    begins = [begin("a", 1.5), begin("b", 2.0), begin("c", 9.0)]

    assert longest_gap_s(begins, 1.0, 3.0) == 1.0
    assert longest_gap_s([], 1.0, 3.0) == 2.0
    assert resumed_after_s(begins, 2.5) == 6.5
    assert resumed_after_s(begins, 9.5) == float("inf")


def test_a_partition_without_progress_is_found() -> None:
    places = {"a": ("topic", 0), "b": ("topic", 1)}

    assert slowest_place_s([begin("a", 11.0), begin("b", 14.0)], places, 10.0) == 4.0
    assert slowest_place_s([begin("a", 11.0)], places, 10.0) == float("inf")


def ticket(told: State | None, told_s: float | None) -> Ticket:
    order = Order("a", Kind.MARKED, 10)
    return replace(Ticket(order, 0.0), told=told, told_s=told_s)


def test_a_request_is_hit_when_its_child_dies_before_it_is_told() -> None:
    kills, begins = [Kill(1, 5.0)], [begin("a", 4.0)]

    assert hit_waits(kills, begins, {"a": ticket(State.IN_DOUBT, 5.2)}) == [pytest.approx(0.2)]
    assert hit_waits(kills, begins, {"a": ticket(None, None)}) == [float("inf")]
    # Told before the kill, or ended by its own handler before it: not hit.
    assert hit_waits(kills, begins, {"a": ticket(State.IN_DOUBT, 4.9)}) == []
    assert hit_waits(kills, begins, {"a": ticket(State.SUCCEEDED, 5.2)}) == []


def test_a_request_that_ran_again_after_its_child_died_was_hit() -> None:
    begins = [begin("a", 4.0), begin("a", 5.1, pid=2)]

    assert hit_waits([Kill(1, 5.0)], begins, {"a": ticket(State.SUCCEEDED, 5.5)}) == [0.5]


def test_what_is_due_is_taken_once_and_counts_until_it_was_asked_for() -> None:
    due, order = Due(), Order("a", Kind.MARKED, 10)
    due.add(order, after_s=0.0)
    due.add(order.anew(), after_s=3600.0)

    assert due.take(9) == [order]
    assert (due.take(9), len(due)) == ([], 1)


@pytest.mark.parametrize(
    ("word", "then"),
    [
        (Word.NOT_SENT, Then.NEW_ID),
        (State.EXPIRED, Then.NEW_ID),
        (State.LOST, Then.SAME_ID),
        (State.UNKNOWN, Then.SAME_ID),
        (State.SUCCEEDED, Then.WAIT),
        (State.RUNNING, Then.WAIT),
    ],
)
def test_a_caller_asks_anew_only_where_it_was_told_that_nothing_happened(
    word: Word | State, then: Then
) -> None:
    assert then_after(word, asked=1) is then


def test_a_caller_gives_up_in_the_end() -> None:
    assert then_after(Word.NOT_SENT, asked=MOST_AFTER_NOT_SENT) is Then.WAIT


def test_each_row_has_a_name_of_its_own_and_journals_of_both_kinds_occur() -> None:
    assert len(ROWS) > 20
    assert all(name == row.fault and row.what for name, row in ROWS.items())
    assert len({row.journal for row in ROWS.values()}) == 2
