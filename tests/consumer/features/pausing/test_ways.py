"""In which way a run ended."""

from __future__ import annotations

from typing import Any

import pytest

from consumer.features.pausing.ways import FINE, Way, way_of, way_without_end
from consumer.journal import Finish
from consumer.pool.outcome import Raised
from tests.consumer.samples import payments


def finish(state: str, code: str | None = None, **facts: Any) -> Finish:
    """Return the end of a run."""
    known: dict[str, Any] = {"message": None, "result": None, "resend": False}
    return Finish(request_id="a", generation=1, state=state, code=code, **known | facts)


def raised(name: str) -> Raised:
    """Return what a handler raised."""
    return Raised(name, "")


def test_work_that_was_done_is_fine() -> None:
    assert way_of(finish("SUCCEEDED", "RESULT_TOO_LARGE"), payments(), None) == FINE


def test_what_was_not_to_run_says_nothing_of_whoever_it_would_have_called() -> None:
    assert way_of(finish("SKIPPED", "NOT_APPLICABLE"), payments(), None) is None


@pytest.mark.parametrize("state", ["FAILED", "RETRYING"])
def test_errors_are_told_apart_by_their_class(state: str) -> None:
    one = finish(state, "HANDLER_ERROR", message="Refused: no", resend=state == "RETRYING")
    found = way_of(one, payments(), raised("urllib3.exceptions.NewConnectionError"))
    assert found == Way("HANDLER_ERROR", "NewConnectionError")
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
    one = finish("IN_DOUBT", "HANDLER_ERROR", message=message)
    assert way_of(one, payments(), None) == Way("HANDLER_ERROR", error_class)


def test_a_doubt_that_a_handler_raised_has_no_code_and_is_a_failure() -> None:
    assert way_of(finish("IN_DOUBT", message="no answer"), payments(), None) == Way("IN_DOUBT")


@pytest.mark.parametrize("code", ["TIMEOUT", "CHILD_DIED", "QUERY_UNKNOWN"])
def test_codes_of_ours_are_failures_without_a_class(code: str) -> None:
    assert way_of(finish("IN_DOUBT", code, message="X: y"), payments(), None) == Way(code)
    assert way_without_end(code) == Way(code)


def test_a_final_rejection_says_nothing_of_the_counterparty() -> None:
    one = finish("FAILED", "CARD_EXPIRED", message="m")
    assert way_of(one, payments(), raised("consumer.handlers.decorator.Rejected")) is None


@pytest.mark.parametrize(("state", "resend"), [("FAILED", True), ("RETRYING", False)])
def test_a_rejection_that_may_help_is_a_failure(state: str, resend: bool) -> None:
    one = finish(state, "BANK_BUSY", resend=resend)
    assert way_of(one, payments(retry_on=("BANK_BUSY",)), None) == Way("BANK_BUSY")


def test_so_is_its_last_try() -> None:
    one = finish("FAILED", "BANK_BUSY", resend=False)
    assert way_of(one, payments(retry_on=("BANK_BUSY",)), None) == Way("BANK_BUSY")


def test_our_own_database_is_no_counterparty() -> None:
    one = finish("FAILED", "JOURNAL_UNAVAILABLE", resend=True)
    assert way_of(one, payments(), None) is None


def test_what_a_handler_makes_of_a_code_is_cut() -> None:
    assert len(way_without_end("X" * 1000).code) == 64
