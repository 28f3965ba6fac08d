"""In which way a run ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from consumer.features.pausing.circuit_breaker import FINE, FailureKind, failure_kind_of
from consumer.loop.continuation import NextStep, continuation
from consumer.loop.settlement import Settlement
from consumer.pool.outcome import RaisedError
from tests.consumer.samples import delivery, payments, settled


def end(
    state: str, code: str | None = None, *, retry_on: tuple[str, ...] = (), **facts: Any
) -> Settlement:
    """Return how a run ended."""
    one = delivery("a")._replace(handler=payments(retry_on=retry_on))
    raised = facts.pop("raised", None)
    return replace(settled(one, state, code=code, **facts), raised=raised)


def raised(name: str) -> RaisedError:
    """Return what a handler raised."""
    return RaisedError(name, "")


def test_work_that_was_done_is_fine() -> None:
    assert failure_kind_of(end("SUCCEEDED", "RESULT_TOO_LARGE")) == FINE


def test_what_was_not_to_run_says_nothing_of_whoever_it_would_have_called() -> None:
    assert failure_kind_of(end("SKIPPED", "NOT_APPLICABLE")) is None


@pytest.mark.parametrize("state", ["FAILED", "RETRYING"])
def test_errors_are_told_apart_by_their_class(state: str) -> None:
    one = end(state, "HANDLER_ERROR", message="Refused: no", resend=state == "RETRYING")
    found = failure_kind_of(replace(one, raised=raised("urllib3.exceptions.NewConnectionError")))
    assert found == FailureKind("HANDLER_ERROR", "NewConnectionError")
    assert str(found) == "HANDLER_ERROR NewConnectionError"


@pytest.mark.parametrize(
    ("message", "error_class"),
    [
        ("ReadTimeout: after 3 s", "ReadTimeout"),
        ("KeyError", "KeyError"),
        ("while it was asked about: its process was killed", ""),
        (None, ""),
    ],
)
def test_of_a_run_in_doubt_the_class_is_read_from_its_line(
    message: str | None, error_class: str
) -> None:
    one = end("IN_DOUBT", "HANDLER_ERROR", message=message)
    assert failure_kind_of(one) == FailureKind("HANDLER_ERROR", error_class)


def test_a_doubt_that_a_handler_raised_has_no_code_and_is_a_failure() -> None:
    assert failure_kind_of(end("IN_DOUBT", message="no answer")) == FailureKind("IN_DOUBT")


@pytest.mark.parametrize("code", ["TIMEOUT", "CHILD_DIED", "QUERY_UNKNOWN"])
def test_codes_of_ours_are_failures_without_a_class(code: str) -> None:
    assert failure_kind_of(end("IN_DOUBT", code, message="X: y")) == FailureKind(code)
    again = continuation(delivery("a"), 1, NextStep.RUN_AGAIN, because=code)
    assert failure_kind_of(Settlement(again.run, again.delivery, follows=again)) == FailureKind(
        code
    )


def test_a_final_rejection_says_nothing_of_the_counterparty() -> None:
    one = end("FAILED", "CARD_EXPIRED", message="m")
    assert (
        failure_kind_of(replace(one, raised=raised("consumer.handlers.decorator.Rejected"))) is None
    )


@pytest.mark.parametrize(("state", "resend"), [("FAILED", True), ("RETRYING", False)])
def test_a_rejection_that_may_help_is_a_failure(state: str, resend: bool) -> None:
    one = end(state, "BANK_BUSY", resend=resend, retry_on=("BANK_BUSY",))
    assert failure_kind_of(one) == FailureKind("BANK_BUSY")


def test_so_is_its_last_try() -> None:
    one = end("FAILED", "BANK_BUSY", retry_on=("BANK_BUSY",))
    assert failure_kind_of(one) == FailureKind("BANK_BUSY")


def test_our_own_database_is_no_counterparty() -> None:
    one = end("FAILED", "JOURNAL_UNAVAILABLE", resend=True)
    assert failure_kind_of(one) is None


def test_what_a_handler_makes_of_a_code_is_cut() -> None:
    assert failure_kind_of(end("FAILED", "X" * 1000, resend=True)) == FailureKind("X" * 64)
