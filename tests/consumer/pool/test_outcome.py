"""The rule how a run ended, for every way of ending."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.handlers.declaration import EffectKind, Handler
from consumer.handlers.errors import InDoubt, Rejected
from consumer.pool.outcome import (
    CLASS_LIMIT,
    STACK_LIMIT_BYTES,
    Outcome,
    describe,
    judge_error,
    judge_return,
    one_line,
    raised_by,
)
from feedback.status import State


class Refusing(dict[str, str]):
    """A result whose encoding raises."""

    def items(self) -> None:  # type: ignore[override]
        raise OSError("no")


class Silent(Exception):
    """An error whose text cannot be had."""

    def __str__(self) -> str:
        raise OSError("no")


def _handler(
    effect: EffectKind, *, retry_on: tuple[type[BaseException], ...] = (ConnectionError,)
) -> Handler:
    return Handler(print, topic="t", name="m:f", effect=effect, retry_on=retry_on)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        ({"a": [1, 2.5, None]}, '{"a":[1,2.5,null]}'),
        ("é\ud800", '"\\u00e9\\ud800"'),
        ((1, 2), "[1,2]"),
    ],
)
def test_a_returned_value_is_kept_as_compact_ascii_json(value: object, text: str) -> None:
    assert judge_return(value, max_result_bytes=100) == Outcome(State.SUCCEEDED, result=text)


_circle: list[object] = []
_circle.append(_circle)


@pytest.mark.parametrize(
    "value", [set(), float("inf"), b"x", _circle, {(1, 2): 3}, object(), Refusing(a="b")]
)
def test_a_returned_value_that_is_no_json_leaves_a_success_without_result(value: object) -> None:
    outcome = judge_return(value, max_result_bytes=100)
    assert (outcome.state, outcome.code) == (State.SUCCEEDED, "RESULT_NOT_JSON")
    assert outcome.result is None


def test_the_limit_of_a_result_is_its_length_as_json() -> None:
    assert judge_return("xxx", max_result_bytes=5).result == '"xxx"'
    assert judge_return("xxx", max_result_bytes=4).code == "RESULT_TOO_LARGE"


@pytest.mark.parametrize("effect", list(EffectKind))
@pytest.mark.parametrize("granted", [False, True])
def test_what_the_handler_declares_counts_whatever_its_effect(
    effect: EffectKind, granted: bool
) -> None:
    def judge(error: BaseException) -> Outcome:
        return judge_error(error, handler=_handler(effect), effect_granted=granted)

    assert judge(Rejected("NO", "why")) == Outcome(State.FAILED, code="NO", message="why")
    assert judge(InDoubt("who knows")) == Outcome(State.IN_DOUBT, message="who knows")
    told = "ConnectionResetError: x"
    retried = Outcome(State.FAILED, code="HANDLER_ERROR", message=told, resend=True)
    assert judge(ConnectionResetError("x")) == retried


@pytest.mark.parametrize(
    "error",
    [ValueError("x"), SystemExit(0), KeyboardInterrupt(), asyncio.CancelledError(), MemoryError()],
)
@pytest.mark.parametrize(
    ("effect", "granted", "state"),
    [
        (EffectKind.EXTERNAL, False, State.IN_DOUBT),
        (EffectKind.MARKED, True, State.IN_DOUBT),
        (EffectKind.MARKED, False, State.FAILED),
        (EffectKind.TRANSACTIONAL, False, State.FAILED),
    ],
)
def test_an_undeclared_error_is_in_doubt_once_the_effect_has_begun(
    error: BaseException, effect: EffectKind, granted: bool, state: State
) -> None:
    outcome = judge_error(error, handler=_handler(effect), effect_granted=granted)
    assert (outcome.state, outcome.code, outcome.resend) == (state, "HANDLER_ERROR", False)
    assert not (outcome.committed or outcome.stale)


def test_an_error_without_a_readable_text_is_told_by_its_class() -> None:
    assert describe(Silent()) == "Silent"
    assert describe(KeyError()) == "KeyError"


@given(st.text(max_size=2000))
def test_a_message_is_one_line_that_every_database_takes(text: str) -> None:
    line = describe(ValueError(text))
    assert len(line) <= len("ValueError: ") + 500
    assert len(line.splitlines()) <= 1
    assert "\0" not in line
    assert line.encode("utf-8")
    assert len(one_line(text)) <= 500


def _caught(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def test_what_was_raised_is_told_by_its_class_and_its_stack() -> None:
    found = raised_by(_caught(OSError("no route")))
    assert found.error_class == "OSError"
    assert found.stack.startswith("Traceback (most recent call last):\n")
    assert "in _caught" in found.stack and found.stack.endswith("OSError: no route\n")
    assert raised_by(Rejected("NO", "no")).error_class.endswith(".Rejected")


def test_an_error_whose_text_cannot_be_had_still_has_a_class() -> None:
    assert raised_by(_caught(Silent())).error_class == f"{__name__}.Silent"


@given(st.text(st.characters(), max_size=50), st.integers(0, 400))
def test_a_stack_is_its_end_valid_text_and_bounded(text: str, times: int) -> None:
    error = _caught(OSError(text * times))
    name = type("x" * 1000, (OSError,), {})
    found = raised_by(error)
    assert len(found.stack.encode("utf-8")) <= STACK_LIMIT_BYTES
    assert not set(found.stack) & {"\x00", "\x1b", "\x9b"}
    assert len(raised_by(name()).error_class) == CLASS_LIMIT
