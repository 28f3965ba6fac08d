"""What is unfinished, and who of several has taken it: the order of the log decides."""

from __future__ import annotations

import random

import pytest

from consumer.features.waits.record import GIVEN_BACK, Tombstone, Wait
from consumer.features.waits.resuming import Table, Taking
from feedback.records.envelope import Record

RECORD = Record("payments", 0, 1, 5, None, b"v", ())


def said(holder: str | None, generation: int = 1, name: str = "id") -> Wait:
    return Wait(name, generation, holder, 1000, RECORD)


def table(*records: Wait | Tombstone, worker: str = "me") -> Table:
    made = Table(worker)
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
        log: list[Wait | Tombstone] = []
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
        expected = [first.holder] if isinstance(first, Wait) else []
        assert going == expected
