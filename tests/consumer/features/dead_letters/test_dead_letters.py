"""When the thread looks, what it goes through, and what it leaves for the next time."""

from __future__ import annotations

import pytest

from consumer.features.dead_letters.dead_letters import DeadLetters, make
from consumer.features.outgoing import outgoing_loop as module
from feedback.settings.settings import load
from tests.consumer.cores import core_of
from tests.consumer.features.dead_letters.office import Office
from tests.consumer.samples import payments, record
from tests.eventually import eventually

LIMIT_S = 60.0


@pytest.fixture
def office(monkeypatch: pytest.MonkeyPatch) -> Office:
    return Office(monkeypatch)


def test_what_waits_is_written_page_after_page_and_then_waits_no_more(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE", 2)
    for number in range(5):
        office.rows.add(f"r{number}")
    office.letters.look()
    assert office.poster.taken() == ["r0", "r1", "r2", "r3", "r4"]
    assert office.rows.waits == {}
    assert office.metrics.counted == {("payments", "written"): 5}


def test_a_topic_whose_letters_nobody_wants_is_only_counted(office: Office) -> None:
    office.rows.add("a", topic="news")
    office.rows.add("b")
    office.letters.look()
    assert (office.poster.taken(), office.rows.waits) == (["b"], {})
    assert office.metrics.counted == {("news", "dropped"): 1, ("payments", "written"): 1}


def test_a_topic_of_another_workers_handlers_is_left_alone_and_shown(office: Office) -> None:
    office.rows.add("a", topic="elsewhere")
    office.letters.look()
    assert (office.poster.taken(), len(office.rows.waits)) == ([], 1)
    assert office.metrics.shown == {"elsewhere": 1}


def test_what_is_gone_waits_no_more_and_is_counted_apart(office: Office) -> None:
    office.rows.add("a")
    office.poster.gone = {"a"}
    office.letters.look()
    assert (office.rows.waits, office.metrics.counted) == ({}, {("payments", "payload_gone"): 1})


def test_one_that_is_never_taken_costs_one_try_a_passage_and_nobody_else_anything(
    office: Office,
) -> None:
    for name in ("large", "a"):
        office.rows.add(name)
    office.poster.refused = {"large"}
    office.letters.look()
    assert office.poster.taken() == ["large", "a"]
    for number in range(3):
        office.rows.add(f"later-{number}")
        office.letters.look()
        assert office.poster.taken() == [f"later-{number}"]
    office.now_s += 1.0
    office.letters.look()
    assert office.poster.taken() == ["large"]
    office.now_s += 1.0  # the next pause is longer
    office.letters.look()
    assert office.poster.taken() == []
    office.poster.refused = set()
    office.now_s += 1.0
    office.letters.look()
    assert (office.poster.taken(), office.rows.waits) == (["large"], {})


def test_a_topic_that_is_away_is_tried_once_a_passage_and_the_others_go_on(
    office: Office,
) -> None:
    office.poster.closed = {"payments"}
    for name in ("a", "b"):
        office.rows.add(name)
    office.letters.look()
    assert office.poster.taken() == ["a"]
    office.rows.add("c")
    office.rows.add("d", topic="orders")
    office.letters.look()
    assert office.poster.taken() == ["d"]
    office.poster.closed = set()
    office.now_s += 1.0
    office.letters.look()
    assert office.poster.taken() == ["a", "b", "c"]


def test_letters_of_the_dead_are_written_by_whose_turn_it_is(office: Office) -> None:
    office.rows.add("their-a")
    office.may_sweep = False
    office.letters.look()
    assert (office.poster.taken(), office.rows.turns) == ([], 0)
    office.may_sweep = True
    office.letters.look()
    assert office.poster.taken() == ["their-a"]


def test_with_only_my_own_failures_nobody_takes_a_turn(office: Office) -> None:
    office.rows.add("a")
    office.letters.look()
    assert office.rows.turns == 0


def test_the_database_away_is_the_next_looks_business(office: Office) -> None:
    office.rows.add("a")
    office.rows.is_away = True
    office.letters.look()
    office.rows.is_away = False
    office.letters.look()
    assert office.poster.taken() == ["a"]


def test_what_has_its_letter_or_waits_no_more_is_not_remembered(office: Office) -> None:
    office.rows.add("a")
    office.recent.failed(("a", 1), record(), None)
    office.recent.failed(("resolved", 1), record(), None)
    office.letters.look()
    assert office.recent.of(("a", 1)) is None
    assert office.recent.of(("resolved", 1)) is not None  # nobody can know yet
    office.now_s = 10.0**12
    office.letters.look()
    assert office.recent.of(("resolved", 1)) is None


def test_what_is_shown_comes_down_again(office: Office) -> None:
    office.rows.add("a")
    office.poster.refused = {"a"}
    office.letters.look()
    assert office.metrics.shown == {"payments": 1}
    office.rows.waits.clear()
    office.letters.look()
    assert office.metrics.shown == {"payments": 0}


def test_the_owners_hear_of_what_was_written_what_waits_and_what_is_in_the_way(
    office: Office,
) -> None:
    office.rows.add("a")
    office.rows.add("large")
    office.rows.add("dropped", topic="news")
    office.rows.add("elsewhere", topic="elsewhere")
    office.poster.refused = {"large"}
    office.letters.look()
    assert sorted(office.alerts.told) == [
        ("hindered", "payments", "too large"),
        ("waiting", "news", 1, 0.0),
        ("waiting", "payments", 2, 0.0),
        ("written", "a"),
        ("written", "dropped"),
    ]


def test_news_wake_it_and_its_end_closes_what_it_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    office = Office(monkeypatch, lease_s=3600.0)
    office.letters.start()
    office.rows.add("a")
    office.recent.failed(("a", 1), record(), None)
    eventually(lambda: office.poster.tried == ["a"], timeout_s=LIMIT_S)
    office.letters.stop(LIMIT_S)
    assert office.poster.is_closed.is_set() and office.rows.is_closed


def test_it_looks_by_itself_for_what_others_left(monkeypatch: pytest.MonkeyPatch) -> None:
    office = Office(monkeypatch)
    office.letters.start()
    eventually(lambda: office.rows.looks > 1, timeout_s=LIMIT_S)
    office.rows.add("their-a")
    eventually(lambda: office.poster.tried == ["their-a"], timeout_s=LIMIT_S)
    office.letters.stop(LIMIT_S)
    assert office.poster.is_closed.is_set() and office.rows.is_closed


@pytest.mark.parametrize(("strategy", "is_made"), [("none", False), ("drop", True)])
def test_without_a_topic_that_has_dead_letters_there_is_nothing_to_start(
    strategy: str, is_made: bool
) -> None:
    settings = load(kafka={"group": "g"}, worker={"dead_letters": strategy})
    made = make(core_of(settings, handlers=[payments()]))
    assert [type(one) for one in made] == [DeadLetters] * is_made


def test_a_slow_look_at_everything_is_followed_by_short_ones_that_find_what_fails_since(
    office: Office,
) -> None:
    def spend() -> None:
        office.now_s += 2.0

    office.rows.add("left", topic="elsewhere")
    office.rows.spend = spend
    office.letters.look()
    office.rows.spend = lambda: None
    office.rows.add("a")
    office.now_s += 5.0
    office.letters.look()
    assert office.poster.taken() == ["a"]
    whole, part = office.rows.spans
    assert part < 60_000 < whole
    # Of what others leave a short look knows a part.
    office.rows.waits.clear()
    office.now_s += 5.0
    office.letters.look()
    assert office.metrics.shown == {"elsewhere": 1, "payments": 0}
    office.now_s += 500.0
    office.letters.look()
    assert office.metrics.shown == {"elsewhere": 0, "payments": 0}
    assert office.rows.spans[-1] == whole
