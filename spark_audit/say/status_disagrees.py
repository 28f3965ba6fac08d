"""`status_disagrees.csv`: every client that was told otherwise than the journal says.

The findings' Parquet has all that was judged of these requests; the statuses are known from Redis
alone, and stand here.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable

from spark_audit.judge.status_check import Disagreement
from spark_audit.output.location import Location
from spark_audit.output.outputs import new_file
from spark_audit.say.findings_csv import guarded

COLUMNS = ("request_id", "journal_state", "status")


def write_disagreements(rows: Iterable[Disagreement], path: Location) -> None:
    """Write a line for each, as RFC 4180 has it."""
    with new_file(path) as file:
        # All quoted: else a spreadsheet that divides at semicolons sees cells of its own.
        writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
        writer.writerow(COLUMNS)
        writer.writerows([guarded(getattr(row, name)) for name in COLUMNS] for row in rows)
