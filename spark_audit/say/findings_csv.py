"""The requests with a finding that needs a person, a file for each finding, for a spreadsheet.

The findings' Parquet has all that was judged of these requests; the statuses are known from Redis
alone, and stand here.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter

from spark_audit.findings import Finding, FindingRow
from spark_audit.judge.status_check import Disagreement
from spark_audit.output.formatting import iso
from spark_audit.output.location import Location
from spark_audit.output.outputs import new_file

DISAGREES_COLUMNS = ("request_id", "journal_state", "status")


def write_disagreements(rows: Iterable[Disagreement], path: Location) -> None:
    """Write a line for each, as RFC 4180 has it."""
    with new_file(path) as file:
        # All quoted: else a spreadsheet that divides at semicolons sees cells of its own.
        writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
        writer.writerow(DISAGREES_COLUMNS)
        writer.writerows(
            [without_formula(getattr(row, name)) for name in DISAGREES_COLUMNS] for row in rows
        )


COLUMNS = (
    "request_id",
    "topic",
    "partition",
    "offset",
    "first_at",
    "claimed_at",
    "deadline_at",
    "attempt",
    "runs",
    "owner",
    "code",
    "payload_sha256",
    "state",
    "finished_at",
    "records",
    "effect_runs",
    "dead_letters",
    "reason",
)
_TIMES = frozenset({"first_at", "claimed_at", "deadline_at", "finished_at"})
# A spreadsheet runs a cell that begins so, quoted or not.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def write_findings_csv(rows: Iterable[tuple[Finding, FindingRow]], folder: Location) -> None:
    """Write `<finding>.csv` for each finding; `in_doubt.csv` also where nothing is."""
    written = set()
    for finding, found in groupby(rows, key=itemgetter(0)):
        write_csv((row for _, row in found), folder / f"{finding.value}.csv")
        written.add(finding)
    if Finding.IN_DOUBT not in written:
        write_csv((), folder / "in_doubt.csv")


def write_csv(rows: Iterable[FindingRow], path: Location) -> int:
    """Write a line for each request, as RFC 4180 has it, and return how many there are."""
    count = 0
    with new_file(path) as file:
        # All quoted: else a spreadsheet that divides at semicolons sees cells of its own.
        writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
        writer.writerow(COLUMNS)
        for row in rows:
            writer.writerow([_cell(name, getattr(row, name)) for name in COLUMNS])
            count += 1
    return count


def without_formula(text: str) -> str:
    """Return text that no spreadsheet takes for a formula.

    >>> without_formula("=1+1")
    "'=1+1"
    """
    return f"'{text}" if text.startswith(_FORMULA) else text


def _cell(name: str, value: str | int | None) -> str:
    if value is None:
        return ""
    if isinstance(value, int):
        return iso(value) if name in _TIMES else str(value)
    return without_formula(value)
