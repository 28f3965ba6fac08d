"""A reading that fails by a fault of ours is said, and no older one stands in for it."""

import pytest

from consumer.console.letter_board import LetterBoard
from feedback.settings.settings import load
from tests.consumer.features.dead_letters.conftest import MakeBox
from tests.eventually import eventually


def test_a_fault_of_ours_is_no_old_reading(
    make_box: MakeBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("consumer.console.letter_board.OLD_S", 0.0)
    monkeypatch.setattr("consumer.console.letter_board.RESTS", 0)
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
