"""How a run ended: the rule over the handler's result or error."""

from __future__ import annotations

import json
import re
import traceback
from dataclasses import dataclass
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import NamedTuple

from consumer.handlers.declaration import EffectKind, Handler, OnError
from consumer.handlers.error_classes import is_retryable, is_retryable_code
from consumer.handlers.errors import CODE, InDoubt, Rejected
from consumer.handlers.query_result import Happened, QueryResult, Voided
from feedback.foreign import attribute_of, class_name, plain_text, qualified_name, text_of
from feedback.status import State

HANDLER_ERROR = "HANDLER_ERROR"
REJECTED = "REJECTED"
RESULT_TOO_LARGE = "RESULT_TOO_LARGE"
RESULT_NOT_JSON = "RESULT_NOT_JSON"
JOURNAL_UNAVAILABLE = "JOURNAL_UNAVAILABLE"
QUERY_UNKNOWN = "QUERY_UNKNOWN"

MESSAGE_LIMIT = 500
CLASS_LIMIT = 200
STACK_LIMIT_BYTES = 8192

# C0 and C1 controls, line separators, and lone surrogates, which no database takes.
_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_UNFIT_IN_LINES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class RaisedError(NamedTuple):
    """The error of a handler, for its dead letter.

    Args:
        error_class: with its module, unless that is Python's own.
        stack: as Python prints it, its last 8 KiB.
    """

    error_class: str
    stack: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one run.

    Attributes:
        state: SUCCEEDED, FAILED, IN_DOUBT, or SKIPPED where it was not to run.
        code, message: why, one line each, without the payload.
        result: the handler's return value as JSON text, None when it is left out.
        resend: whether a resend may help.
        committed: the child has committed this finish in the journal (transactional handlers).
        stale: the claim was no longer ours: nothing may be written.
        voided: the counterparty refuses this run's key from now on.
        unbegun: a transactional handler was not called, or left nothing: the database gave it no
            connection, or lets this user not write the end.
        raised: the error of a failed run.
    """

    state: State
    code: str | None = None
    message: str | None = None
    result: str | None = None
    resend: bool = False
    committed: bool = False
    stale: bool = False
    voided: bool = False
    unbegun: bool = False
    raised: RaisedError | None = None


STALE = Outcome(State.FAILED, message="the claim was no longer ours", stale=True)
_NOTHING_RETURNED = Outcome(State.SUCCEEDED, result="null")


def judge_return(value: object, *, max_result_bytes: int) -> Outcome:
    """Return the success: the work is done, even if its result cannot be encoded.

    A result that is no JSON or too large is left out and told by its code; failing the request
    for it would invite a second run.

    Args:
        value: the handler's return value.
        max_result_bytes: the longest JSON text, in bytes, that is kept.
    """
    if value is None:
        return _NOTHING_RETURNED
    try:
        result = _encode(value)
    # Encoding runs the user's code (keys, subclasses): if it raises, the work is done all the same.
    except BaseException as error:
        return Outcome(State.SUCCEEDED, code=RESULT_NOT_JSON, message=class_name(error))
    if len(result) > max_result_bytes:  # ASCII: characters are bytes
        told = f"the result has {len(result)} bytes, more than {max_result_bytes}"
        return Outcome(State.SUCCEEDED, code=RESULT_TOO_LARGE, message=told)
    return Outcome(State.SUCCEEDED, result=result)


def judge_error(error: BaseException, *, handler: Handler, effect_granted: bool) -> Outcome:
    """Return how a run ended that raised (docs: Effects and doubt).

    The gate of the run knows whether the journal refused its effect. The error does not prove it:
    an EffectRefused from elsewhere is an error like any other, and its run has an end.

    Args:
        error: the handler's error, of any class.
        handler: its declaration.
        effect_granted: whether a marked handler had entered its effect.
    """
    told = declared_outcome(error, handler=handler)
    if told is not None:
        return told
    message = describe(error)
    if handler.on_error is OnError.RETRY and not effect_granted:
        return Outcome(State.FAILED, code=HANDLER_ERROR, message=message, resend=True)
    # A handler of dead letters says itself how an error counts, but for a marked effect.
    may_have_acted = handler.effect is EffectKind.EXTERNAL and handler.on_error is None
    if may_have_acted or effect_granted:
        return Outcome(State.IN_DOUBT, code=HANDLER_ERROR, message=message)
    return Outcome(State.FAILED, code=HANDLER_ERROR, message=message)


def declared_outcome(error: BaseException, *, handler: Handler) -> Outcome | None:
    """Return how a run ended that raised a declared error; None when it is not declared.

    Args:
        error: the handler's error, of any class.
        handler: its declaration.
    """
    try:
        return _declared(error, handler)
    except BaseException:  # its class is the user's: one that cannot be asked declares nothing
        return None


def _declared(error: BaseException, handler: Handler) -> Outcome | None:
    if isinstance(error, Rejected):
        code = _code_of(error)
        may_help = is_retryable_code(code, handler)
        return Outcome(State.FAILED, code=code, message=_message_of(error), resend=may_help)
    if isinstance(error, InDoubt):
        return Outcome(State.IN_DOUBT, message=_message_of(error))
    if is_retryable(error, handler):
        return Outcome(State.FAILED, code=HANDLER_ERROR, message=describe(error), resend=True)
    return None


def _code_of(error: Rejected) -> str:
    # A subclass need not have called our __init__, which checks it.
    code = attribute_of(error, "code")
    is_code = isinstance(code, str) and CODE.fullmatch(plain_text(code))
    return plain_text(code) if is_code else REJECTED


def _message_of(error: Rejected | InDoubt) -> str:
    return one_line(attribute_of(error, "message") or "")


def judge_answer(answer: QueryResult, *, max_result_bytes: int) -> Outcome:
    """Return how a run in doubt ended, by the counterparty's answer.

    Args:
        answer: the answer of the query function.
        max_result_bytes: the longest JSON text of a result, in bytes, that is kept.
    """
    match answer:
        case Happened(result):
            return judge_return(result, max_result_bytes=max_result_bytes)
        case Voided():
            return Outcome(State.IN_DOUBT, voided=True)
    return Outcome(State.IN_DOUBT, code=QUERY_UNKNOWN, message=one_line(answer.message) or None)


def refuse_unstarted(value: object) -> None:
    """Refuse a coroutine or generator that a plain function returned: its work was never done.

    Raises:
        TypeError: it is one.
    """
    if isinstance(value, (CoroutineType, GeneratorType, AsyncGeneratorType)):
        if isinstance(value, CoroutineType):
            value.close()  # else it warns that nobody awaited it
        kind = type(value).__name__
        raise TypeError(f"the function returned a {kind} that never ran: use async def, or return")


def raised_by(error: BaseException) -> RaisedError:
    """Return class and stack of an exception."""
    name = qualified_name(error)
    try:
        stack = "".join(traceback.format_exception(error))
    except BaseException:  # the user's own classes are asked for their text
        stack = ""
    end = stack.encode("utf-8", "replace")[-STACK_LIMIT_BYTES:].decode("utf-8", "ignore")
    return RaisedError(_UNFIT.sub(" ", name[:CLASS_LIMIT]), _UNFIT_IN_LINES.sub(" ", end))


def describe(error: BaseException) -> str:
    """Return `Class: text` of an exception as one line, the text cut at 500 characters."""
    return f"{_UNFIT.sub(' ', class_name(error)[:CLASS_LIMIT])}: {one_line(error)}".removesuffix(
        ": "
    )


def one_line(text: object) -> str:
    """Return the first 500 characters without line ends and control characters."""
    return _UNFIT.sub(" ", text_of(text)[:MESSAGE_LIMIT])
