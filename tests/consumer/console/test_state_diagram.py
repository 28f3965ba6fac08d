"""The picture of the states: what the status rule allows, and where a request stands."""

from __future__ import annotations

import pytest

from consumer.console.state_diagram import ARROWS, PLACES, standing
from consumer.journal.records import JournalState
from feedback.status import BEFORE_CLAIM, FOLLOWERS, STORED, State


def test_each_state_has_a_box_and_each_arrow_is_one_of_the_rule() -> None:
    assert PLACES.keys() == {*STORED}
    assert all(after in FOLLOWERS[before] for before, after in ARROWS)
    assert {after for _, after in ARROWS} == {*STORED} - {State.PENDING}


def test_what_never_ran_is_not_drawn_behind_a_run() -> None:
    behind_a_run = {after for before, after in ARROWS if before is State.RUNNING}
    assert behind_a_run.isdisjoint({State.SKIPPED, State.EXPIRED})
    # A person ends a doubt, in either way.
    ends = {after for before, after in ARROWS if before is State.IN_DOUBT}
    assert ends == {State.SUCCEEDED, State.FAILED}


@pytest.mark.parametrize("state", JournalState)
def test_the_journal_counts(state: JournalState) -> None:
    for status in (None, State.PENDING, State.SUCCEEDED, State.UNKNOWN):
        stands = standing(state, status)
        assert stands in PLACES and stands not in BEFORE_CLAIM


@pytest.mark.parametrize("status", [None, State.LOST, State.UNKNOWN])
def test_what_nobody_has_stands_nowhere(status: State | None) -> None:
    assert standing(None, status) is None
