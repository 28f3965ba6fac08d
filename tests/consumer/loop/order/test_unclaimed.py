"""From where the next owner of a partition reads."""

from __future__ import annotations

from consumer.handlers.declaration import Order
from consumer.handlers.delivery import RefusedRecord
from consumer.loop.order.unclaimed import first_unclaimed
from tests.consumer.loop.order.samples import asked

HERE = ("payments", 3)


def test_it_begins_with_the_first_that_waits_of_each_partition_that_goes() -> None:
    first, second = asked("a"), asked("b", b"other")
    there = asked("c")
    there = there._replace(record=there.record._replace(partition=4))
    stays = asked("d")
    stays = stays._replace(record=stays.record._replace(partition=5))
    found = first_unclaimed([second, first, stays, there], [HERE, ("payments", 4)])
    assert found == {HERE: first.record.offset, ("payments", 4): there.record.offset}


def test_what_keeps_no_order_never_runs_or_is_no_record_of_it_is_not_read_again() -> None:
    free, keyless, retry = asked("a", order=Order.NONE), asked("b", None), asked("c", wakes=1)
    one = asked("d")
    refused = RefusedRecord(one.record, "r", 1, "", 0, "INVALID_MESSAGE", "no")
    assert first_unclaimed([free, keyless, retry, refused], [HERE]) == {}


def test_a_partition_of_which_nothing_waits_is_not_committed_again() -> None:
    assert first_unclaimed([asked("a")], [("payments", 9)]) == {}
    assert first_unclaimed([], [HERE]) == {}
