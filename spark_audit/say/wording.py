"""The words of the page: the meaning of each finding, and the form of numbers and texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from feedback.console.printable import printable
from spark_audit.findings import Finding
from spark_audit.output.formatting import moment
from spark_audit.say.charts import took

# Longer texts are cut: the Parquet has all of it.
LONGEST = 160
NOTHING = "–"  # noqa: RUF001

MEANINGS: Mapping[Finding, str] = {
    Finding.LOST: "Its time is over, and nobody ever claimed it: its client waits.",
    Finding.FORGOTTEN: "Its time is over, and its row may have been pruned: it may have run. "
    "Never send it again.",
    Finding.OVERDUE: "Its time is over, and it waits: never delivered, lost when it "
    "was sent again, or between two runs. Is a worker running?",
    Finding.RAN_TWICE: "More than one run may have had its effect. Ask the counterparty.",
    Finding.IN_DOUBT: "Its effect may have happened; nobody knows. Ask the counterparty, and "
    "decide.",
    Finding.STUCK: "Claimed, and its worker's lease or its own deadline is long over. A running "
    "worker goes on with it.",
    Finding.ORPHAN: "The journal has it, and Kafka has no record of it.",
    Finding.PAYLOAD_MISMATCH: "One id with more than one payload: a sender reuses its ids.",
    Finding.RESENT: "Sent more than once, as it should be when an answer is missing.",
    Finding.FAILED_WITHOUT_DEAD_LETTER: "Failed for good, and no dead letter tells of it. A "
    "running worker writes what is missing.",
    Finding.DEAD_LETTER_WITHOUT_FAILURE: "A dead letter of a request that has not failed.",
    Finding.MALFORMED: "A record whose headers break the rules; it was refused.",
    Finding.LATE: "It ended after its deadline.",
    Finding.STATUS_DISAGREES: "Its client was told otherwise than the journal says.",
    Finding.RETENTION_GAP: "Kafka deleted records before they were read. Keep its topics longer.",
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
class PageTable:
    """A table of the page: titles with their kind, and as many cells in each row."""

    titles: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]


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


def gaps_table(gaps: Sequence[Mapping[str, Any]]) -> PageTable:
    """Return the table of the first gaps of a summary."""
    names = ("partition", "first_offset", "next_offset", "records")
    titles = ("Partition", "From offset", "To before", "Records")
    return PageTable(
        (Cell("Topic", "id"), *(Cell(title, "number") for title in titles)),
        tuple(
            (
                Cell(shown(gap["topic"]), "id"),
                *(Cell(number(gap[name]), "number") for name in names),
            )
            for gap in gaps
        ),
    )
