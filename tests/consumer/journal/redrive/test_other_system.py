"""Whose failure a row tells of, and which discard closes a failure in another system."""

import pytest

from consumer.journal.actions import Action
from consumer.journal.records import JournalState, Row
from consumer.journal.redrive.other_system import (
    can_be_undone_beside,
    has_open_failure,
    is_beside,
    is_closed_beside,
)
from consumer.journal.redrive.redrive_rule import DiscardVerdict, is_discarded
from tests.consumer.features.dead_letters.samples import FAILED_AT, failed
from tests.consumer.samples import row

THEN = FAILED_AT + 10_000
RAN = THEN + 10_000


def did(action: str, *, of: int | None = None, by: str | None = None, at: int = THEN) -> Action:
    """Return an action on the request `a`, of a redrive where `by` names one."""
    return Action("a", action, "ann", at, None, by, of)


def ran(**facts: int | None) -> Row:
    """Return a row of this group, whose last run began after `THEN`."""
    return row("a", "SUCCEEDED", **{"claimed_at": RAN, "finished_at": RAN + 5, **facts})


def beside(found: Row | None, *actions: Action, by: str | None = None, at: int = FAILED_AT) -> bool:
    """Whether the row tells nothing of what failed in another system at that time."""
    return is_beside(found, actions, redrive_id=by, failed_at=at)


@pytest.mark.parametrize("state", list(JournalState))
def test_no_row_alone_tells_of_a_failure_in_another_system(state: JournalState) -> None:
    assert beside(None)
    assert beside(row("a", state.value, claimed_at=RAN))
    # Neither does the redrive of a failure of ours.
    assert beside(row("a", state.value, claimed_at=RAN), did("redrive", of=1, by="r"))


def test_a_row_tells_of_it_once_a_redrive_has_sent_it_and_this_group_has_run_it() -> None:
    sent = did("redrive", by="r")
    assert not beside(ran(), sent)
    assert not beside(ran(claimed_at=None), sent)  # it was refused
    assert beside(ran(claimed_at=THEN - 1), sent)
    assert beside(ran(claimed_at=None, finished_at=None), sent)
    assert beside(ran(), sent, did("cancel", by="r"))  # Kafka did not take it


def test_what_fails_there_again_is_another_failure() -> None:
    first, second = did("redrive", by="r"), did("redrive", by="s", at=THEN + 5)
    assert beside(ran(), first, by="r")
    assert beside(ran(), first, second, by="s")
    assert not beside(ran(), first, second, by="r")
    # Of a redrive that this journal does not know, nobody knows when that was.
    assert beside(ran(), first, second, by="another's")
    # Not every system keeps our header.
    assert beside(ran(), first, at=THEN) and not beside(ran(), first, at=THEN - 1)


def test_its_discard_is_none_of_ours_and_ours_is_none_of_its() -> None:
    theirs, ours = did("discard"), did("discard", of=1)
    assert not is_closed_beside(None, []) and not is_closed_beside(ran(), [ours])
    assert not is_closed_beside(failed(), [ours])
    for state in JournalState:
        found = row("a", state.value)
        assert not is_discarded([theirs], found)
        assert is_closed_beside(found, [theirs]) is (state is not JournalState.FAILED), state
    assert is_closed_beside(None, [theirs])


def test_while_a_failure_of_ours_is_open_theirs_is_too_since_a_redrive_would_send_both() -> None:
    theirs, ours = did("discard"), did("discard", of=1)
    assert has_open_failure(failed(), [theirs]) and not is_closed_beside(failed(), [theirs])
    both = [theirs, ours]
    assert not has_open_failure(failed(), both) and is_closed_beside(failed(), both)
    assert not is_closed_beside(failed(generation=2), both)
    assert not is_closed_beside(failed(), [*both, did("undo", of=1)])


def test_its_discard_is_undone_whatever_has_happened_here() -> None:
    theirs, ours = did("discard"), did("discard", of=1)
    assert can_be_undone_beside([ours]) is DiscardVerdict.NOT_DISCARDED
    assert can_be_undone_beside([theirs, ours, did("undo", of=1)]) is DiscardVerdict.UNDONE
    assert can_be_undone_beside([theirs, did("undo")]) is DiscardVerdict.NOT_DISCARDED
    assert can_be_undone_beside([did("discard", by="r")]) is DiscardVerdict.REPLACED
    assert can_be_undone_beside([did("discard", by="r"), did("cancel", by="r")]) is (
        DiscardVerdict.NOT_DISCARDED
    )
