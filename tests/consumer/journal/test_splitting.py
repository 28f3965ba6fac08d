"""What the database refuses because of its data is set apart, and the rest goes on."""

from __future__ import annotations

import pytest

from consumer.journal import (
    RESULT_REFUSED,
    EffectMark,
    FinishKind,
    Journal,
    JournalState,
    Published,
    VerdictKind,
    Work,
)
from tests.consumer.journal.samples import claim, finish, kinds, new_id, refusal

TOO_LARGE = 2**70
SURROGATE = "half \ud800"
SECRET = "4111-1111-1111-1111"


@pytest.mark.parametrize("place", [0, 6, 12])
def test_a_claim_that_is_refused_stands_alone(journal: Journal, place: int) -> None:
    claims = [claim(new_id()) for _ in range(12)]
    claims.insert(place, claim(new_id(), offset=TOO_LARGE))
    applied = journal.apply(Work(claims=claims))
    expected = [VerdictKind.RUN] * 12
    expected.insert(place, VerdictKind.REFUSED)
    assert kinds(applied) == expected
    assert applied.verdicts[place].row is None


@pytest.mark.parametrize("bad", [f"{SECRET}\0", f"{SECRET}{SURROGATE}"])
def test_a_reason_never_shows_what_was_refused(journal: Journal, bad: str) -> None:
    (verdict,) = journal.apply(Work(claims=[claim(bad)])).verdicts
    assert verdict.kind is VerdictKind.REFUSED
    assert SECRET not in verdict.reason and "refuses" in verdict.reason


@pytest.mark.parametrize("bad", ["nul \0", SURROGATE])
def test_an_ending_that_is_refused_is_written_without_its_result(
    journal: Journal, bad: str
) -> None:
    names = [new_id() for _ in range(9)]
    journal.apply(Work(claims=[claim(name) for name in names]))
    finishes = [finish(name, result="1") for name in names]
    finishes[4] = finish(names[4], message=bad, result=bad)
    finished = journal.apply(Work(finishes=finishes)).finished
    assert {result.kind for result in finished.values()} == {FinishKind.WRITTEN}
    refused = finished[names[4], 1].row
    assert refused is not None
    assert (refused.state, refused.code, refused.result) == ("SUCCEEDED", RESULT_REFUSED, None)
    assert refused.message is not None and refused.message.isprintable()
    results = {row.request_id: row.result for row in journal.unpublished(20, 0)}
    assert results == dict.fromkeys(names, "1") | {names[4]: None}


def test_a_batch_with_refused_data_can_be_repeated(journal: Journal) -> None:
    good, bad, ended = new_id(), new_id(), new_id()
    journal.apply(Work(claims=[claim(ended)]))
    batch = Work(
        claims=[claim(good), claim(bad, offset=TOO_LARGE), claim(good)],
        finishes=[finish(ended, result="\0")],
    )
    first = journal.apply(batch)
    second = journal.apply(batch, tried=[good, bad])
    assert kinds(first) == [VerdictKind.RUN, VerdictKind.REFUSED, VerdictKind.RUNNING]
    assert kinds(second) == kinds(first)
    assert second.finished[ended, 1].kind is FinishKind.ALREADY
    assert second.finished[ended, 1].row == first.finished[ended, 1].row


def test_a_refusal_leaves_a_row_whatever_its_data(journal: Journal) -> None:
    name, other = new_id(), new_id()
    bad = refusal(name, message=f"nul \0 {SURROGATE}", deadline_at=TOO_LARGE)
    row, _ = journal.apply(Work(refusals=[bad, refusal(other)])).refusals
    assert (row.request_id, row.state, row.deadline_at) == (name, JournalState.FAILED, 2**63 - 1)


def test_marks_that_no_database_can_hold_are_of_no_run(journal: Journal) -> None:
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    applied = journal.apply(
        Work(
            effects=[EffectMark(name, 1), EffectMark(name, TOO_LARGE)],
            published=[Published("\0", 1, JournalState.FAILED)],
        ),
    )
    assert applied.effects == {(name, 1)}
