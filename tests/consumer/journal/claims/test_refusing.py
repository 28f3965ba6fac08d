"""A record that is refused although its request waited for it, on both databases."""

from __future__ import annotations

import pytest

from consumer.journal import Journal, JournalState, VerdictKind, Work
from tests.consumer.journal.conftest import Database
from tests.consumer.journal.samples import (
    OTHER_SHA,
    claim,
    finish,
    kinds,
    new_id,
    refusal,
    row_of,
)


def waits(journal: Journal) -> str:
    """Return a failure that a resend may reopen, as a redrive leaves it as well."""
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    ended = finish(name, state=JournalState.FAILED, code="NO", message="no", resend=True)
    journal.apply(Work(finishes=[ended]))
    return name


def test_it_has_failed_again_by_that_once_and_its_run_stays_in_the_history(
    journal: Journal, database: Database
) -> None:
    name, other = waits(journal), new_id()
    refusals = [refusal(other), refusal(name, attempt=2, message="amount: minimum")]
    fresh, row = journal.apply(Work(refusals=refusals)).refusals
    assert (fresh.request_id, fresh.generation) == (other, 1)
    assert (row.state, row.code, row.message) == ("FAILED", "INVALID_MESSAGE", "amount: minimum")
    assert (row.generation, row.attempt, row.resend) == (2, 2, False)
    assert (row.claimed_at, row.effect_at, row.published_at) == (None, None, None)
    assert (row.offset, row.dead_letter_at) == (refusals[1].offset, None)
    (stands,) = database.query("SELECT * FROM onceward_request WHERE request_id = :n", n=name)
    assert {column: stands[column] for column in row._fields} == row._asdict()
    (kept,) = database.query("SELECT * FROM onceward_run")
    assert (kept["request_id"], kept["generation"], kept["outcome"]) == (name, 1, "FAILED")
    assert kept["by_whom"] == "me"
    # What is read again, or asked again after a call of unknown outcome.
    assert journal.apply(Work(refusals=refusals)).refusals == (fresh, row)
    assert len(database.query("SELECT * FROM onceward_run")) == 1
    assert kinds(journal.apply(Work(claims=[claim(name, attempt=3)]))) == [VerdictKind.ANSWERED]


def test_its_deadline_over_it_stays_as_it_failed_and_no_resend_helps_any_more(
    journal: Journal, database: Database
) -> None:
    late, refused = waits(journal), waits(journal)
    database.change("UPDATE onceward_request SET deadline_at = 1, published_at = 1")
    applied = journal.apply(Work(claims=[claim(late, attempt=2)]))
    assert kinds(applied) == [VerdictKind.ANSWERED]
    (row,) = journal.apply(Work(refusals=[refusal(refused, attempt=2)])).refusals
    for one in (row, row_of(applied)):
        assert (one.state, one.code, one.generation) == ("FAILED", "NO", 1)
        assert (one.attempt, one.resend, one.published_at) == (1, False, None)
    assert database.query("SELECT * FROM onceward_run") == []
    assert journal.apply(Work(claims=[claim(late, attempt=3)])).verdicts[0].row == row_of(applied)


@pytest.mark.parametrize("given", [{"attempt": 1}, {"attempt": 2, "payload_sha256": OTHER_SHA}])
def test_an_earlier_attempt_or_another_payload_changes_nothing(
    journal: Journal, given: dict[str, object]
) -> None:
    name = waits(journal)
    before = journal.apply(Work(claims=[claim(name)])).verdicts[0].row
    assert journal.apply(Work(refusals=[refusal(name, **given)])).refusals == (before,)  # type: ignore[arg-type]


def test_of_a_resend_that_runs_and_a_refusal_one_has_its_way(journal: Journal) -> None:
    name = waits(journal)
    claimed = row_of(journal.apply(Work(claims=[claim(name, attempt=2)])))
    assert journal.apply(Work(refusals=[refusal(name, attempt=2)])).refusals == (claimed,)
