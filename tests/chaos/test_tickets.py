"""What a caller takes for the end of a request that it sends again under the same id."""

import pytest

from feedback.status import State
from tests.chaos.orders import Kind, Order
from tests.chaos.tickets import Ticket, Tickets

ORDER = Order("order-7", Kind.MARKED, 10)
NAME = ORDER.request_id


@pytest.fixture
def tickets() -> Tickets:
    """Return the tickets of a caller who has sent one order."""
    tickets, batch = Tickets(), {NAME: Ticket(ORDER, 0.0)}
    tickets.begin(batch)
    tickets.keep(batch, not_sent=())
    return tickets


def _read(tickets: Tickets) -> int:
    return tickets.take_turn(older_than_s=0.0, most=10)[NAME]


def test_who_was_told_that_nothing_happened_sends_nothing_again(tickets: Tickets) -> None:
    assert tickets.note(NAME, State.FAILED) is tickets.kept[NAME]
    assert tickets.begin_again([NAME]) == set()


def test_a_failure_that_is_heard_of_while_it_is_sent_again_is_no_end(tickets: Tickets) -> None:
    read_before = _read(tickets)
    assert tickets.begin_again([NAME]) == {NAME}
    assert tickets.note(NAME, State.FAILED, tries=_read(tickets)) is None
    tickets.end_again([NAME])
    assert tickets.note(NAME, State.FAILED, tries=read_before) is None
    assert (tickets.note(NAME, State.EXPIRED), tickets.open_count) == (None, 1)
    assert tickets.note(NAME, State.FAILED, tries=_read(tickets)) is tickets.kept[NAME]
    assert list(tickets.over) == [NAME]


def test_a_success_is_the_end_whenever_it_is_heard_of(tickets: Tickets) -> None:
    tickets.begin_again([NAME])
    assert tickets.note(NAME, State.SUCCEEDED) is tickets.kept[NAME]
