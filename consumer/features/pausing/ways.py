"""In which way a run ended, as the outage guard compares them. Pure.

Two runs fail the same way with the same code and, where the code only says that something was
raised, the same class of error. A failure that is the request's own fault (a final `Rejected`)
proves nothing about the counterparty.
"""

from __future__ import annotations

from typing import NamedTuple

from consumer.handlers.declaration import Handler
from consumer.handlers.error_classes import is_retryable_code
from consumer.journal import Finish
from consumer.loop.mapping import CHILD_DIED, TIMEOUT
from consumer.loop.settlement import Settlement
from consumer.pool.outcome import (
    HANDLER_ERROR,
    JOURNAL_UNAVAILABLE,
    QUERY_UNKNOWN,
    Raised,
)
from feedback.status import State

_CODE_LIMIT = 64
# Codes that no handler has chosen.
_OURS = (HANDLER_ERROR, TIMEOUT, CHILD_DIED, QUERY_UNKNOWN)


class FailureKind(NamedTuple):
    """The evidence of an ended run about the counterparty.

    Attributes:
        code: stable; empty when the run did its work.
        error_class: its last name, where it is known.
    """

    code: str = ""
    error_class: str = ""

    def __str__(self) -> str:
        return f"{self.code} {self.error_class}".rstrip()


FINE = FailureKind()


def way_of(one: Settlement) -> FailureKind | None:
    """Return how a run ended; None when that says nothing about the handler's counterparty."""
    finish = one.finish
    if finish is None:
        return (
            None if one.follows is None else FailureKind(one.follows.takeover.because[:_CODE_LIMIT])
        )
    if finish.state == State.SKIPPED:
        return None  # no counterparty was called
    if finish.state not in (State.FAILED, State.RETRYING, State.IN_DOUBT):
        return FINE
    code = finish.code or str(finish.state)
    if code == JOURNAL_UNAVAILABLE or _is_its_own(finish, code, one.delivery.handler):
        return None
    return FailureKind(code[:_CODE_LIMIT], _class(code, finish.message, one.raised))


def _is_its_own(finish: Finish, code: str, handler: Handler) -> bool:
    is_final = finish.state == State.FAILED and not finish.resend
    return is_final and code not in _OURS and not is_retryable_code(code, handler)


def _class(code: str, message: str | None, raised: Raised | None) -> str:
    if code != HANDLER_ERROR:
        return ""
    if raised is not None:
        return raised.error_class.rpartition(".")[2]
    # In doubt, only the one line is stored: `Class: text`.
    head = (message or "").partition(":")[0]
    return head if head.isidentifier() else ""
