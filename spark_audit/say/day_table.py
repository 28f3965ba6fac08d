"""One table of all days: a line of figures for each, so that trends open one file.

A day's line is made from its summary, and must never say anything else. So it is taken out before
the day's report is replaced, and put in after: a run that dies between leaves a day without a line,
whose summary is read instead. Days that were judged before there was a table have none either.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from feedback.errors import NotAvailable
from feedback.logs import EventLog
from spark_audit.output.location import Location
from spark_audit.output.outputs import put_text

NAME = "days.jsonl"
VERSION = 1
_LOG = EventLog("onceward.audit")

Line = Mapping[str, Any]


def read_lines(output: Location) -> dict[str, Line]:
    """Return the line of each day by its date; none from a file that is no table.

    Args:
        output: `[audit] output`.
    """
    path = output / NAME
    try:
        lines = [json.loads(one) for one in path.read_text(encoding="utf-8").splitlines()]
        return {str(one["date"]): one for one in lines if one["table"] == VERSION}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError):
        # The summaries say the same.
        _LOG.warning("audit.day_table_unreadable", path=path)
        return {}


def take_out(output: Location, date: str) -> None:
    """Remove a day's line: its report is about to be replaced.

    Raises:
        NotAvailable: the disk refuses.
    """
    lines = read_lines(output)
    if lines.pop(date, None) is not None:
        _write(output, lines)


def put_in(output: Location, line: Line) -> None:
    """Add a day's line; the caller holds the lock of the folder.

    Raises:
        NotAvailable: the disk refuses.
    """
    _write(output, {**read_lines(output), line["date"]: {**line, "table": VERSION}})


def _write(output: Location, lines: Mapping[str, Line]) -> None:
    texts = (json.dumps(lines[date], sort_keys=True) for date in sorted(lines))
    try:
        put_text(output / NAME, "".join(f"{one}\n" for one in texts))
    except OSError as error:
        raise NotAvailable(f"{output / NAME} cannot be written: {error.strerror}") from error
