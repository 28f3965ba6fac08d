"""A failure in another system, of a record that this group has read too. Pure.

Groups that read one topic have one id for a record, and each its own end of it. So a row of this
group says nothing of a failure elsewhere, until a redrive has sent that record back and this group
has run it since. A decision about such a failure is noted without a generation, as that about a
letter without a row; one about a failure of this group has the generation of its row.
"""

from __future__ import annotations

from collections.abc import Sequence

from consumer.journal.actions import Action, ActionKind
from consumer.journal.records import JournalState, Row
from consumer.journal.redrive.redrive_rule import (
    OF_A_CASE,
    DiscardVerdict,
    is_discarded,
    sendings,
    undo_verdict,
)


def is_beside(
    row: Row | None, actions: Sequence[Action], *, redrive_id: str | None, failed_at: int
) -> bool:
    """Whether a row of this group says nothing of a failure in another system.

    Args:
        redrive_id: the last redrive of the record that failed there, as its letter says it.
        failed_at: when it failed there, by the clock of that system.
    """
    if row is None:
        return True
    # A redrive with a generation was of a failure of this group.
    sent = [one for one in sendings(actions) if one.generation is None]
    if redrive_id is not None:
        names = [one.redrive_id for one in sent]
        if redrive_id not in names:
            return True  # that may have been later than all of these
        sent = sent[len(names) - names[::-1].index(redrive_id) :]
    since = [one.at for one in sent if one.at > failed_at]
    began = row.finished_at if row.claimed_at is None else row.claimed_at
    return not since or began is None or began < since[0]


def has_open_failure(row: Row | None, actions: Sequence[Action]) -> bool:
    """Whether this group has failed too, and nobody has closed that."""
    is_failed = row is not None and row.state == JournalState.FAILED
    return is_failed and not is_discarded(actions, row)


def is_closed_beside(row: Row | None, actions: Sequence[Action]) -> bool:
    """Whether a person has closed the case of a failure in another system.

    Not while a failure of this group is open: a redrive of the letter would send that.
    """
    return discard_beside(actions) is not None and not has_open_failure(row, actions)


def can_be_undone_beside(actions: Sequence[Action], *, seen: str | None = None) -> DiscardVerdict:
    """Return whether the discard of a failure in another system can be undone.

    Args:
        seen: the stamp of the discard that a person means; None: whichever stands.
    """
    return undo_verdict(discard_beside(actions), seen=seen)


def discard_beside(actions: Sequence[Action]) -> Action | None:
    """Return the discard by which the case of a failure in another system is closed."""
    of_it = [one for one in actions if one.action in OF_A_CASE and one.generation is None]
    return of_it[-1] if of_it and of_it[-1].action == ActionKind.DISCARD else None
