"""A reading that fails by a fault of ours is said, and no older one stands in for a new one."""

from collections.abc import Iterable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from consumer.console.letter_board import LetterBoard, OpenLetters, _Refresh
from consumer.console.letter_choice import EVERYTHING, LetterChoice
from consumer.console.letter_index import LetterIndex, LetterView
from consumer.dlq.dates import DateRange
from consumer.journal.redrive.later_requests import NOTHING_LATER, NamedLater
from feedback.clock import monotonic_s
from feedback.settings.settings import Settings, load
from tests.consumer.features.dead_letters.conftest import MakeBox
from tests.eventually import eventually
from tests.kit.settings import write_settings


def test_what_was_read_last_night_is_not_shown_this_morning(
    make_box: MakeBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = make_box("failing")
    box.stage.start()
    board = LetterBoard(load(box.stage.config()))
    monkeypatch.setattr("consumer.console.letter_board.FIRST_WAIT_S", 60.0)
    first = board.look().value
    assert first is not None and first.view.shown == 0
    box.closed([box.stage.client.send({"n": 1}, topic=box.stage.topics["failing"]).request_id])
    nights = 1

    def later_s() -> float:
        return monotonic_s() + nights * 40_000

    monkeypatch.setattr("consumer.console.letter_board.monotonic_s", later_s)
    now = board.look().value
    assert now is not None and now.view.shown == 1
    # The broker answers slowly: that is said, and no old reading stands in for it.
    goes_on = Event()
    monkeypatch.setattr(board, "_read", goes_on.wait)
    monkeypatch.setattr("consumer.console.letter_board.FIRST_WAIT_S", 0.0)
    nights = 2
    found = board.look()
    goes_on.set()
    board.close()
    assert found.value is None and "are being read" in found.why


def test_a_fault_of_ours_is_no_old_reading(
    make_box: MakeBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("consumer.console.letter_board.OLD_S", 0.0)
    monkeypatch.setattr("consumer.console.letter_board.RESTS", 0)
    monkeypatch.setattr("consumer.console.letter_board.FIRST_WAIT_S", 60.0)
    board = LetterBoard(load(make_box("work").stage.config()))
    assert board.look().why == ""

    def full(*_: object) -> None:
        raise MemoryError("the disk is full")

    monkeypatch.setattr("consumer.console.letter_index.LetterIndex.refresh", full)

    def is_said() -> bool:
        try:
            board.look()
        except MemoryError:
            return True
        return False

    assert eventually(is_said)
    board.close()


def test_after_a_slow_reading_another_one_is_made_within_half_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 1000.0
    begun: list[float] = []

    def slowly(_: LetterBoard) -> _Refresh:
        nonlocal now_s
        begun.append(now_s)
        now_s += 60.0
        return _Refresh(OpenLetters(len(begun), [], 0), begun[-1], 0)

    monkeypatch.setattr(LetterBoard, "_refresh", slowly)
    monkeypatch.setattr("consumer.console.letter_board.monotonic_s", lambda: now_s)
    monkeypatch.setattr("consumer.console.letter_board.FIRST_WAIT_S", 60.0)
    board = LetterBoard(load(write_settings(tmp_path, {"kafka": {"group": "g"}})))
    first = board.count().value
    assert first is not None and (first.shown, first.age_s) == (1, 60.0)
    now_s += 29.0
    rests = board.count().value
    assert rests is not None and (rests.shown, rests.age_s, len(begun)) == (1, 89.0, 1)
    # A minute and more after its end no old reading stands in for a new one.
    now_s += 32.0
    second = board.count().value
    board.close()
    assert second is not None and (second.shown, second.age_s) == (2, 60.0)


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[LetterChoice]:
    """Return the choices whose letters are looked up; each look reads them anew where it may."""
    monkeypatch.setattr("consumer.console.letter_board.FIRST_WAIT_S", 60.0)
    found: list[LetterChoice] = []
    view = LetterIndex.view

    def noted(index: LetterIndex, choice: LetterChoice, **most: Any) -> LetterView:
        found.append(choice)
        return view(index, choice, **most)

    monkeypatch.setattr(LetterIndex, "view", noted)
    return found


def test_a_view_is_kept_for_its_own_choice_and_the_newest_of_them(
    make_box: MakeBox, monkeypatch: pytest.MonkeyPatch, looked: list[LetterChoice]
) -> None:
    for name, value in {"MOST_VIEWS": 3, "OLD_S": 600.0}.items():
        monkeypatch.setattr(f"consumer.console.letter_board.{name}", value)
    board = LetterBoard(load(make_box("work").stage.config()))
    since, until, of_topic = (
        LetterChoice(stretch=DateRange(1)),
        LetterChoice(stretch=DateRange(None, 1)),
        LetterChoice((("topic", "pay"),), DateRange(1)),
    )
    for choice in (EVERYTHING, since, until, since, EVERYTHING, of_topic, of_topic, since, until):
        assert board.look(choice).why == ""
    board.close()
    assert looked == [EVERYTHING, since, until, of_topic, until]


def test_what_a_page_shows_is_looked_up_where_a_person_opens_it_and_letters_have_changed(
    make_box: MakeBox, monkeypatch: pytest.MonkeyPatch, looked: list[LetterChoice]
) -> None:
    nights = 0
    monkeypatch.setattr(
        "consumer.console.letter_board.monotonic_s", lambda: monotonic_s() + nights * 40_000
    )
    box = make_box("failing")
    box.stage.start()
    board = LetterBoard(load(box.stage.config()))
    asked: list[list[str]] = []

    def noted(settings: Settings, ids: Iterable[str]) -> NamedLater:
        asked.append([*ids])
        return NOTHING_LATER

    monkeypatch.setattr("consumer.console.letter_board.asked_anew", noted)
    since = LetterChoice(stretch=DateRange(1))

    def shown() -> int:
        nonlocal nights
        nights += 1
        found = board.count().value
        assert found is not None
        return found.shown

    assert (shown(), shown(), looked, asked) == (0, 0, [], [])
    for _ in range(2):
        assert board.look().why == board.look(since).why == ""
    assert (looked, asked) == ([EVERYTHING, since], [[]])
    # The thread asks anew for later requests: those have no mark. Nothing else has changed.
    assert (shown(), looked, asked) == (0, [EVERYTHING, since], [[], []])
    # Nobody has looked since.
    assert (shown(), looked, len(asked)) == (0, [EVERYTHING, since], 2)
    assert board.look(since).why == ""
    assert (len(looked), len(asked)) == (2, 3)
    failed = box.stage.client.send({"n": 1}, topic=box.stage.topics["failing"]).request_id
    box.closed([failed])
    assert (shown(), len(looked)) == (1, 2)
    found = board.look(since).value
    board.close()
    assert found is not None and [one.request_id for one in found.view.newest] == [failed]
    assert looked[2:] == [since] and asked[3:] == [[failed]]
