"""What is unfinished, and who of several has taken it: the order of the log decides."""

from __future__ import annotations

import random

import pytest

from consumer.features.waits.unfinished_requests import REMEMBERED, Taking, UnfinishedRequests
from consumer.features.waits.wait_record import GIVEN_BACK, Tombstone, WaitRecord
from feedback.records.envelope import Record

RECORD = Record("payments", 0, 1, 5, None, b"v", ())


def said(holder: str | None, generation: int = 1, name: str = "id") -> WaitRecord:
    return WaitRecord(name, generation, holder, 1000, RECORD)


def table(*records: WaitRecord | Tombstone, worker: str = "me") -> UnfinishedRequests:
    made = UnfinishedRequests(worker)
    for offset, one in enumerate(records):
        made.apply(offset, one)
    return made


def test_what_has_no_tombstone_is_unfinished() -> None:
    made = table(said("a"), said("b", name="other"), Tombstone("id"), Tombstone("unknown"))
    assert [(one.request_id, one.offset, one.holder) for one in made] == [("other", 1, "b")]
    assert made.holders() == {"b"}


def test_who_reads_its_own_record_first_goes_on() -> None:
    made = table(said("dead"))
    (entry,) = made
    generation = made.ask(entry)
    assert generation == 2
    assert {*made.asked} == {"id"}
    assert made.apply(1, said("me", generation)) is Taking.OURS
    assert not made.asked
    assert made.of("id") == entry._replace(offset=1, generation=2, holder="me")


def test_whoever_comes_second_has_lost_and_the_first_stays_its_holder() -> None:
    made = table(said("dead"))
    (entry,) = made
    generation = made.ask(entry)
    assert made.apply(1, said("other", generation)) is None
    assert made.apply(2, said("me", generation)) is Taking.LOST
    known = made.of("id")
    assert known is not None
    assert (known.holder, known.offset) == ("other", 1)


def test_a_third_who_only_reads_sees_the_first_as_well() -> None:
    made = table(said("dead"), said("first", 2), said("second", 2), worker="third")
    assert made.holders() == {"first"}
    # The second puts it right, since its record is the latest.
    made.apply(3, said("first", 2))
    known = made.of("id")
    assert known is not None
    assert (known.holder, known.offset) == ("first", 3)


def test_one_that_had_ended_before_goes_again() -> None:
    made = table(said("dead"))
    (entry,) = made
    generation = made.ask(entry)
    made.apply(1, Tombstone("id"))
    assert made.apply(2, said("me", generation)) is Taking.OVER


def current(*records: WaitRecord | Tombstone) -> UnfinishedRequests:
    """Return a table that has read these as they were written."""
    made = table()
    made.is_current = True
    for offset, one in enumerate(records):
        made.apply(offset, one)
    return made


@pytest.mark.parametrize("holder", ["first", None], ids=["a worker", "nobody"])
def test_a_later_taking_behind_the_end_is_stray_and_leaves_nothing(holder: str | None) -> None:
    made = current(said("dead"), said("first", 2), Tombstone("id"))
    assert made.apply(3, said(holder, 2)) is Taking.STRAY
    assert len(made) == 0
    # So is the next one, until it is sent again.
    assert made.apply(4, said("second", 3)) is Taking.STRAY


def test_what_begins_behind_the_end_is_not_stray() -> None:
    for again in (said("reader"), said(GIVEN_BACK, 2)):
        made = current(said("dead"), Tombstone("id"))
        assert made.apply(2, again) is None
        assert made.apply(3, said("taker", 3)) is None
        assert made.holders() == {"taker"}


def test_what_compaction_may_have_hidden_is_not_stray() -> None:
    made = table(said("dead"), Tombstone("id"))
    assert made.apply(2, said("taker", 2)) is None
    assert made.holders() == {"taker"}


def test_the_end_of_a_stray_taking_ends_no_request_that_was_sent_again() -> None:
    made = current(said("dead"), Tombstone("id"))
    made.apply(2, said("taker", 2))
    made.apply(3, said("reader"))
    made.apply(4, Tombstone("id", taking=2))
    assert made.holders() == {"reader"}
    made.apply(5, Tombstone("id"))
    assert len(made) == 0


def test_the_end_of_a_stray_taking_ends_its_record() -> None:
    made = table(said("dead"), Tombstone("id"), said("taker", 2), Tombstone("id", taking=2))
    assert len(made) == 0


def test_of_those_that_ended_the_last_are_known() -> None:
    made = current()
    for number in range(REMEMBERED + 1):
        made.apply(number, Tombstone(f"id-{number}"))
    assert made.apply(-1, said("a", 2, name="id-0")) is None
    assert made.apply(-1, said("a", 2, name="id-1")) is Taking.STRAY


def test_what_was_not_written_is_not_waited_for() -> None:
    made = table(said("dead"))
    (entry,) = made
    made.ask(entry)
    made.withdraw("id")
    assert made.apply(1, said("me", 2)) is None


@pytest.mark.parametrize("holder", [GIVEN_BACK, None], ids=["given back", "by hand"])
def test_nobody_is_no_holder(holder: str | None) -> None:
    assert table(said(holder)).holders() == set()


def test_a_first_taking_is_never_late() -> None:
    made = table(said("dead"), said("taker", 2), said("reader", 1))
    assert made.holders() == {"reader"}


def test_of_many_that_ask_at_once_exactly_one_goes_on() -> None:
    dice = random.Random(3)
    for _ in range(200):
        workers = [f"w{number}" for number in range(dice.randint(2, 5))]
        tables = {name: table(said("dead"), worker=name) for name in workers}
        log: list[WaitRecord | Tombstone] = []
        for name in dice.sample(workers, len(workers)):
            (entry,) = tables[name]
            log.append(said(name, tables[name].ask(entry)))
        if dice.random() < 0.3:
            log.insert(dice.randint(0, len(log)), Tombstone("id"))
        going = [
            name
            for name in workers
            for offset, one in enumerate(log, start=1)
            if tables[name].apply(offset, one) is Taking.OURS
        ]
        first = log[0]
        expected = [first.holder] if isinstance(first, WaitRecord) else []
        assert going == expected
