"""Which letters a filter takes."""

from typing import Any

import pytest

from consumer.dlq.filter import LetterFilter
from consumer.dlq.letter_state import LetterState
from tests.consumer.dlq.samples import FAILED_AT, letter

WHOLE = LetterFilter(
    ids=frozenset({"a", "b"}),
    reasons=frozenset({"HANDLER_ERROR"}),
    codes=frozenset({"HANDLER_ERROR"}),
    classes=frozenset({"OSError"}),
    topics=frozenset({"payments"}),
    messages=frozenset({"OSError: the bank is on fire"}),
    since_ms=FAILED_AT,
    until_ms=FAILED_AT + 1,
    text="BANK IS",
    key="card-1",
    states=frozenset({LetterState.OPEN}),
)


def test_every_condition_must_be_met() -> None:
    assert WHOLE.takes(letter())
    others: list[dict[str, Any]] = [
        {"request_id": "c"},
        {"DLQ_REASON": "TIMEOUT"},
        {"DLQ_EXCEPTION_CLASS": "builtins.NotOSError"},
        {"DLQ_EXCEPTION_CLASS": None},
        {"ORIGINAL_TOPIC": "orders"},
        {"DLQ_FAILED_AT": str(FAILED_AT - 1)},
        {"DLQ_FAILED_AT": str(FAILED_AT + 1)},
        {"DLQ_EXCEPTION_MESSAGE": "the bank"},
        {"DLQ_EXCEPTION_MESSAGE": "OSError: the bank is on fire again"},
        {"DLQ_EXCEPTION_MESSAGE": None},
        {"of": {"key": b"card-2"}},
        {"of": {"key": None}},
    ]
    for changes in others:
        assert not WHOLE.takes(letter(**changes)), changes


@pytest.mark.parametrize("name", ["OSError", "builtins.OSError"])
def test_a_class_is_named_whole_or_by_its_last_part(name: str) -> None:
    assert LetterFilter(classes=frozenset({name})).takes(letter())


def test_an_empty_filter_takes_everything() -> None:
    assert LetterFilter().takes(letter())
    assert LetterFilter().words() == "all"


def test_a_filter_comes_back_from_its_json() -> None:
    assert LetterFilter.from_json(WHOLE.to_json()) == WHOLE
    assert LetterFilter.from_json(LetterFilter().to_json()) == LetterFilter()


@pytest.mark.parametrize("text", ['{"colour": "red"}', "{", '{"states": ["dead"]}'])
def test_what_is_no_filter_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        LetterFilter.from_json(text)
