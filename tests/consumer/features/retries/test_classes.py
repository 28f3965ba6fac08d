"""Which errors say that nothing happened and that another run may help."""

import asyncio
import json

import pytest
from pydantic import BaseModel

from consumer.handlers.declaration import EffectKind, Handler
from consumer.handlers.error_classes import Declared, is_retryable
from consumer.handlers.errors import EffectRefused, InDoubt, Rejected
from consumer.pool.outcome import Outcome, judge_error
from feedback.status import State


class BankError(Exception):
    """An error with a code of its own."""

    def __init__(self, code: object) -> None:
        super().__init__(code)
        self.code = code


class Payment(BaseModel):
    """A payload."""

    amount: int


def _handler(
    *retry_on: type[BaseException] | str,
    never_retry: Declared = (),
    follow_causes: bool = False,
    effect: EffectKind = EffectKind.MARKED,
) -> Handler:
    return Handler(
        print,
        topic="t",
        name="m:f",
        effect=effect,
        retry_on=retry_on,
        never_retry=never_retry,
        follow_causes=follow_causes,
    )


def _raised(error: BaseException, *, cause: BaseException | None = None) -> BaseException:
    try:
        raise error from cause
    except BaseException as caught:
        return caught


def test_a_class_is_retried_with_all_below_it() -> None:
    handler = _handler(ConnectionError, asyncio.CancelledError)
    assert is_retryable(ConnectionResetError(), handler)
    assert is_retryable(asyncio.CancelledError(), handler)
    assert not is_retryable(OSError(), handler)


def _decoding_error() -> UnicodeDecodeError:
    return UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no")


def _model_error() -> Exception:
    try:
        Payment.model_validate_json("{}")
    except ValueError as error:
        return error
    raise AssertionError("it fits")


@pytest.mark.parametrize(
    "error",
    [
        TypeError(),
        ValueError(),
        json.JSONDecodeError("no", "", 0),
        _decoding_error(),
        _model_error(),
    ],
)
def test_validation_decoding_and_types_are_fatal_unless_they_are_named(error: Exception) -> None:
    assert not is_retryable(error, _handler(Exception))
    assert is_retryable(error, _handler(type(error)))
    assert is_retryable(error, _handler(TypeError, ValueError))


def test_the_nearest_class_counts() -> None:
    handler = _handler(Exception, UnicodeError)
    assert is_retryable(_decoding_error(), handler)
    assert not is_retryable(json.JSONDecodeError("no", "", 0), handler)


def test_what_is_never_retried_is_not_whatever_else_is_named() -> None:
    handler = _handler(OSError, "BUSY", never_retry=(FileNotFoundError, "LOCKED"))
    assert is_retryable(PermissionError(), handler)
    assert not is_retryable(FileNotFoundError(), handler)
    assert is_retryable(BankError("BUSY"), handler)
    assert not is_retryable(BankError("LOCKED"), handler)


def test_a_code_is_that_of_any_error_that_has_one() -> None:
    handler = _handler("BANK_BUSY")
    assert is_retryable(BankError("BANK_BUSY"), handler)
    assert not is_retryable(BankError("BANK_GONE"), handler)
    assert not is_retryable(BankError(7), handler)


def test_causes_are_followed_only_when_asked_for_and_only_those_that_are_named() -> None:
    caused = _raised(RuntimeError("wrapped"), cause=_raised(KeyError(), cause=TimeoutError()))
    assert is_retryable(caused, _handler(TimeoutError, follow_causes=True))
    assert not is_retryable(caused, _handler(TimeoutError))
    beside = RuntimeError()
    beside.__context__ = TimeoutError()
    assert not is_retryable(beside, _handler(TimeoutError, follow_causes=True))


def test_a_cause_that_must_not_be_retried_rules_it_out() -> None:
    caused = _raised(ConnectionError(), cause=TimeoutError())
    never = _handler(ConnectionError, never_retry=(TimeoutError,), follow_causes=True)
    assert not is_retryable(caused, never)
    doubtful = _raised(ConnectionError(), cause=InDoubt("who knows"))
    assert not is_retryable(doubtful, _handler(ConnectionError, follow_causes=True))
    refused = _raised(ConnectionError(), cause=EffectRefused("r", 1))
    assert not is_retryable(refused, _handler(ConnectionError, follow_causes=True))


def test_a_fatal_error_stays_fatal_whatever_caused_it() -> None:
    caused = _raised(ValueError(), cause=TimeoutError())
    assert not is_retryable(caused, _handler(TimeoutError, follow_causes=True))


def test_causes_in_a_circle_end() -> None:
    one, other = RuntimeError(), RuntimeError()
    one.__cause__, other.__cause__ = other, one
    assert not is_retryable(one, _handler(OSError, follow_causes=True))


@pytest.mark.parametrize("effect", list(EffectKind))
def test_a_rejection_may_be_mended_where_its_code_is_declared(effect: EffectKind) -> None:
    handler = _handler("BANK_BUSY", OSError, effect=effect)
    busy = judge_error(Rejected("BANK_BUSY", "later"), handler=handler, effect_granted=True)
    assert busy == Outcome(State.FAILED, code="BANK_BUSY", message="later", resend=True)
    other = judge_error(Rejected("CARD_EXPIRED", "no"), handler=handler, effect_granted=True)
    assert other == Outcome(State.FAILED, code="CARD_EXPIRED", message="no")
    never = _handler(OSError, never_retry=("BANK_BUSY",), effect=effect)
    assert not judge_error(Rejected("BANK_BUSY"), handler=never, effect_granted=True).resend


def test_a_class_above_the_rejection_says_nothing_of_it() -> None:
    handler = _handler(Exception, effect=EffectKind.TRANSACTIONAL)
    assert not judge_error(Rejected("NO", "why"), handler=handler, effect_granted=False).resend
    doubt = judge_error(InDoubt("who knows"), handler=handler, effect_granted=False)
    assert doubt.state is State.IN_DOUBT


@pytest.mark.parametrize(
    ("effect", "granted", "state"),
    [
        (EffectKind.EXTERNAL, False, State.IN_DOUBT),
        (EffectKind.MARKED, True, State.IN_DOUBT),
        (EffectKind.MARKED, False, State.FAILED),
        (EffectKind.TRANSACTIONAL, False, State.FAILED),
    ],
)
def test_what_is_never_retried_goes_as_an_undeclared_error(
    effect: EffectKind, granted: bool, state: State
) -> None:
    handler = _handler(OSError, never_retry=(FileNotFoundError,), effect=effect)
    outcome = judge_error(FileNotFoundError("x"), handler=handler, effect_granted=granted)
    assert (outcome.state, outcome.code, outcome.resend) == (state, "HANDLER_ERROR", False)
