"""A person has ended a doubt, and then the end of a later run comes that the database had lost.

The person was asked about the run before that one, and clients were told the answer. So the answer
stands above a later failure, and above a run that was to be followed by another: nothing runs. A
later success contradicts a failure of a person, after which a caller may have asked anew: it is in
doubt. The history keeps the later run with its own end.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import null, select

from consumer.journal.claims.verdict import leads_on
from consumer.journal.clock import now_ms
from consumer.journal.journal_writer import JournalWriter
from consumer.journal.losses.lost_rows import AllowedBy, overwrite_lost, why_followed
from consumer.journal.records import DISOWNED, END_LOST, JournalState, OwnRun, Row
from consumer.journal.tables import run

_ACTED = (JournalState.SUCCEEDED, JournalState.IN_DOUBT)
_OF_ANSWER = (
    *("state", "code", "message", "result", "resend", "by", "owner", "claimed_at", "effect_at"),
    *("effect_kind", "in_doubt"),
)
_CONTRADICTED = (
    "a person had resolved run {} as FAILED; run {}, whose claim the database had lost, has"
    " succeeded: whether its client has asked anew since is not known"
)


def is_decided(writer: JournalWriter, row: Row, one: OwnRun) -> bool:
    """Whether a row is the answer of a person, and nobody has asked for a later run since."""
    ended = row.state in (JournalState.SUCCEEDED, JournalState.FAILED)
    if one.finish is None or not ended or leads_on(row, one):
        return False
    # A worker may not read the actions of people. Itself it ends doubts about its own runs alone.
    found = select(run.c.id).where(
        run.c.group == writer.group,
        run.c.request_id == row.request_id,
        run.c.generation == row.generation,
        run.c.outcome == JournalState.IN_DOUBT.value,
        run.c.by_whom != row.owner.removesuffix(DISOWNED),
    )
    return writer.connection.execute(found.limit(1)).first() is not None


def overwrite_decided(writer: JournalWriter, row: Row, one: OwnRun, values: dict[str, Any]) -> None:
    """Write the end of a later run over the answer of a person, and above it how both end.

    That has a generation of its own: a worker writes the end of its run once more where that is in
    doubt by now.

    Args:
        row: the answer, as it stands, locked.
        one: the later run, which has ended.
        values: of that run, by the names of the columns.
    """
    end = JournalState.CLAIMED if one.finish is None else one.finish.state
    stands = end not in _ACTED
    why = AllowedBy.RAISED if stands else why_followed(row, one.claim)
    overwrite_lost(writer, row, values, why=why)
    (later,) = writer.read([row.request_id], lock=True)[0].values()
    above = {
        "generation": later.generation + 1,
        "attempt": max(row.attempt, later.attempt),
        "deadline_at": max(row.deadline_at, later.deadline_at),
        "finished_at": now_ms(),
        "due_at": null(),
        "published_at": null(),
    }
    if stands:
        answer = {name: getattr(row, name) for name in _OF_ANSWER}
        overwrite_lost(writer, later, {**above, **answer}, why=None)
    elif (end, row.state) == (JournalState.SUCCEEDED, JournalState.FAILED):
        doubt = {
            "state": JournalState.IN_DOUBT.value,
            "code": END_LOST,
            "message": _CONTRADICTED.format(row.generation, later.generation),
            "result": null(),
            "resend": False,
        }
        overwrite_lost(writer, later, {**above, **doubt}, why=AllowedBy.RAISED)
