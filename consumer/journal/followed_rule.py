"""Why the run that stands in a row is followed by one that the database had lost. Pure.

The history gives a reason for each run that is overwritten, and the audit accuses it or not. It
must accuse a run beside the lost one: its worker found no trace of that one.
"""

from __future__ import annotations

from enum import StrEnum

from consumer.journal.records import Claim, JournalState, Row, TakeoverKind

_WITHOUT_AN_END = (JournalState.CLAIMED, JournalState.IN_DOUBT)
_SAME_KEY = "retry_same_key"
_TRANSACTIONAL = "transactional"


class Followed(StrEnum):
    """Why another run stands over one in the history (`onceward_run.allowed_by`).

    RAISED: the row above tells of this same run; it has the generation of a later one that is lost
    and left nothing. GRANTED: the journal had granted the later run after all that is known of this
    one, and has lost why.
    """

    RAISED = "RAISED"
    GRANTED = "GRANTED"


def why_followed(
    row: Row, later: Claim, *, is_raised: bool = False
) -> Followed | TakeoverKind | None:
    """Return why a lost run may stand over the one in a row; None where that may be a second one.

    No claim is granted beside a run that may go on. So where the claim of the later run is the last
    of these moments, a rule has let it follow this run; else something of this run has happened
    after the loss, and both may have had their effect. All of them are the database's clock's.

    Args:
        row: as it stands, locked.
        later: the claim of the later run, as it was granted.
        is_raised: whether the run of the row goes on above the later one.
    """
    if is_raised:
        return Followed.RAISED
    moments = (row.claimed_at, row.effect_at, row.finished_at)
    last = max((one for one in moments if one is not None), default=0)
    if row.state in _WITHOUT_AN_END and later.claimed_at is not None and last <= later.claimed_at:
        return Followed.GRANTED
    return TakeoverKind.SAME_KEY if _have_one_key(row, later) else None


def _have_one_key(row: Row, later: Claim) -> bool:
    is_keyed = row.in_doubt == later.in_doubt == _SAME_KEY and row.voids == later.voids
    return is_keyed and _TRANSACTIONAL not in (row.effect_kind, later.effect_kind)
