"""What the page says of each finding: its meaning, and the columns that help with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from feedback.printable import printable
from spark_audit.charts import took
from spark_audit.findings import Finding
from spark_audit.found import Found
from spark_audit.statuses import Disagreement
from spark_audit.texts import moment

# What is longer is cut: the Parquet has all of it.
LONGEST = 160
NOTHING = "–"  # noqa: RUF001

MEANINGS: Mapping[Finding, str] = {
    Finding.LOST: "Its time is over, and nobody ever claimed it. Send it again.",
    Finding.FORGOTTEN: "Its time is over, and its row may have been pruned: it may have run. "
    "Never send it again.",
    Finding.OVERDUE: "Its time is over, and it waits: never delivered, or between two runs. "
    "Is a worker running?",
    Finding.RAN_TWICE: "More than one run may have had its effect. Ask the counterparty.",
    Finding.IN_DOUBT: "Its effect may have happened; nobody knows. A person decides.",
    Finding.STUCK: "Claimed, and its worker's lease or its own deadline is long over.",
    Finding.ORPHAN: "The journal has it, and Kafka has no record of it.",
    Finding.PAYLOAD_MISMATCH: "One id with more than one payload: a sender reuses its ids.",
    Finding.RESENT: "Sent more than once, as it should be when an answer is missing.",
    Finding.FAILED_WITHOUT_DEAD_LETTER: "Failed for good, and no dead letter tells of it.",
    Finding.DEAD_LETTER_WITHOUT_FAILURE: "A dead letter of a request that has not failed.",
    Finding.MALFORMED: "A record whose headers break the contract; it was refused.",
    Finding.LATE: "It ended after its deadline.",
    Finding.STATUS_DISAGREES: "Its client was told otherwise than the journal says; "
    "status_disagrees.csv has them all.",
    Finding.RETENTION_GAP: "Kafka deleted records before they were read.",
    Finding.OFFSET_GAP: "Offsets are missing that no transaction accounts for.",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table.

    Args:
        kind: `id`, `text`, `time` or `number`: how it is set.
    """

    text: str
    kind: str = "text"


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the page: titles with their kind, and as many cells in each row."""

    titles: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    read: Callable[[Found], str]
    kind: str = "text"


def label(name: str) -> str:
    """Return the name of a finding or state as people read it.

    >>> label("failed_without_dead_letter")
    'failed without dead letter'
    """
    return name.replace("_", " ")


def shown(value: str | None) -> str:
    """Return a text from outside: one line, and not too long."""
    if not value:
        return NOTHING
    text = printable(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def number(value: float | None) -> str:
    """Return a number with its thousands apart; a half stays a half."""
    return NOTHING if value is None else f"{value:,.10g}" if value % 1 else f"{value:,.0f}"


def when(at_ms: int | None) -> str:
    """Return a time in UTC to the second."""
    if at_ms is None:
        return NOTHING
    found = moment(at_ms)
    return f"{found:%Y-%m-%d %H:%M:%S}" if found else number(at_ms)


def milliseconds(value: float | None) -> str:
    """Return a time span that is known in milliseconds."""
    return NOTHING if value is None else took(value * 1000)


def table_of(finding: Finding, rows: Sequence[Found]) -> Table:
    """Return the table of the first requests with a finding."""
    columns = (*_FIRST, *_MORE.get(finding, ()), *_LAST)
    return Table(
        tuple(Cell(column.title, column.kind) for column in columns),
        tuple(tuple(Cell(column.read(row), column.kind) for column in columns) for row in rows),
    )


def disagreements_table(rows: Sequence[Disagreement]) -> Table:
    """Return the table of the first requests whose status disagrees."""
    return Table(
        (Cell("Request", "id"), Cell("Journal"), Cell("Told to its client")),
        tuple(
            (
                Cell(shown(row.request_id), "id"),
                Cell(shown(row.journal_state)),
                Cell(shown(row.status)),
            )
            for row in rows
        ),
    )


def gaps_table(gaps: Sequence[Mapping[str, Any]]) -> Table:
    """Return the table of the first gaps of a summary."""
    names = ("partition", "first_offset", "next_offset", "records")
    titles = ("Partition", "From offset", "To before", "Records")
    return Table(
        (Cell("Topic", "id"), *(Cell(title, "number") for title in titles)),
        tuple(
            (
                Cell(shown(gap["topic"]), "id"),
                *(Cell(number(gap[name]), "number") for name in names),
            )
            for gap in gaps
        ),
    )


def _place(row: Found) -> str:
    if row.topic is None:
        return NOTHING
    return f"{shown(row.topic)} / {row.partition} / {row.offset}"


def _yes_or_no(value: bool | None) -> str:
    return NOTHING if value is None else "yes" if value else "no"


def _late_by(row: Found) -> str:
    if row.finished_at is None or row.deadline_at is None:
        return NOTHING
    return milliseconds(max(0, row.finished_at - row.deadline_at))


_FIRST = (_Column("Request", lambda row: shown(row.request_id), "id"),)
_LAST = (_Column("Topic / partition / offset", _place, "id"),)
_FIRST_AT = _Column("First record", lambda row: when(row.first_at), "time")
_CLAIMED_AT = _Column("Claimed", lambda row: when(row.claimed_at), "time")
_FINISHED_AT = _Column("Ended", lambda row: when(row.finished_at), "time")
_DEADLINE_AT = _Column("Deadline", lambda row: when(row.deadline_at), "time")
_STATE = _Column("State", lambda row: shown(row.state))
_CODE = _Column("Code", lambda row: shown(row.code), "id")
_OWNER = _Column("Worker", lambda row: shown(row.owner), "id")
_ATTEMPT = _Column("Attempt", lambda row: number(row.attempt), "number")
_RECORDS = _Column("Records", lambda row: number(row.records), "number")
_RUNS = _Column("Runs", lambda row: number(row.runs), "number")
_EFFECT_RUNS = _Column("With effect", lambda row: number(row.effect_runs), "number")
_LETTERS = _Column("Dead letters", lambda row: number(row.dead_letters), "number")
_REASON = _Column("Reason", lambda row: shown(row.reason), "id")
_CAN_RESEND = _Column("Safe to resend", lambda row: _yes_or_no(bool(row.can_resend)))
_NEEDED = _Column("Needed", lambda row: _yes_or_no(row.resend_needed))
_LATE_BY = _Column("Late by", _late_by, "number")

_MORE: Mapping[Finding, tuple[_Column, ...]] = {
    Finding.LOST: (_FIRST_AT, _DEADLINE_AT, _ATTEMPT, _CAN_RESEND),
    Finding.FORGOTTEN: (_FIRST_AT, _DEADLINE_AT, _ATTEMPT),
    Finding.OVERDUE: (_STATE, _FIRST_AT, _DEADLINE_AT, _ATTEMPT),
    Finding.RAN_TWICE: (_STATE, _RUNS, _EFFECT_RUNS, _FIRST_AT, _OWNER),
    Finding.IN_DOUBT: (_CODE, _CLAIMED_AT, _ATTEMPT, _OWNER),
    Finding.STUCK: (_STATE, _CLAIMED_AT, _DEADLINE_AT, _OWNER),
    Finding.ORPHAN: (_STATE, _CLAIMED_AT, _FINISHED_AT, _OWNER),
    Finding.PAYLOAD_MISMATCH: (_STATE, _RECORDS, _FIRST_AT),
    Finding.RESENT: (_STATE, _ATTEMPT, _RECORDS, _NEEDED, _FIRST_AT),
    Finding.FAILED_WITHOUT_DEAD_LETTER: (_CODE, _FINISHED_AT, _ATTEMPT, _OWNER),
    Finding.DEAD_LETTER_WITHOUT_FAILURE: (_STATE, _LETTERS, _REASON, _FIRST_AT),
    Finding.MALFORMED: (_STATE, _CODE, _FIRST_AT),
    Finding.LATE: (_STATE, _LATE_BY, _DEADLINE_AT, _FINISHED_AT),
}
