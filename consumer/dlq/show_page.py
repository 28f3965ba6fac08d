"""One request for a person: its timeline, then letter and journal, side by side when wide.

All foreign text is made printable.
"""

from __future__ import annotations

import json

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from consumer.dlq.dates import moment
from consumer.dlq.decoded import decoded, header_text
from consumer.dlq.letter import Letter
from consumer.dlq.list_page import unmarked
from consumer.dlq.report import RequestReport
from consumer.dlq.timeline import place_text
from consumer.dlq.timeline_page import FactLine, facts_table, panel, request_panel, timeline_panel
from consumer.journal.records import Row
from feedback.console.printable import printable
from feedback.records.failure_headers import DLQ_STACKTRACE
from feedback.statuses import Status

# Terminals of so many columns have room for two panels.
WIDE = 140
VALUE_LIMIT = 4096
HEADER_LIMIT = 300


def show_page(
    report: RequestReport, *, width: int, value_limit: int | None = None
) -> RenderableType:
    """Return the page.

    Args:
        value_limit: so many characters of the value at most; None hides it.
    """
    first = (request_panel(report, is_value_shown=value_limit is not None), timeline_panel(report))
    letter = _letter_side(report)
    value = _value(report, value_limit)
    journal = _journal_side(report)
    if width < WIDE:
        return Group(*first, *value, *letter, *journal)
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column(ratio=1)
    grid.add_column(ratio=1)
    grid.add_row(Group(*letter), Group(*journal))
    return Group(*first, *value, grid)


def nothing_known(report: RequestReport) -> str:
    """Return a sentence about a request that nobody knows, and about a server that was away."""
    looked = [
        *(["no letter"] if report.letters_away is None else []),
        "no row",
        *(["no status"] if report.away is None else []),
    ]
    first = ", ".join(looked[:-1])
    there_is = f"{first} and {looked[-1]}" if first else looked[-1]
    away = "".join(f"; {one}" for one in (report.letters_away, report.away) if one is not None)
    hint = "" if report.dlqs else "; a letter of another system is found with --dlq TOPIC"
    text = f"{report.request_id}: there is {there_is} of it in group {report.group}{away or hint}"
    return printable(text)


def _value(report: RequestReport, limit: int | None) -> list[RenderableType]:
    if limit is None or not report.has_value:
        return []
    value = decoded(report.value, limit=limit)
    title = f"value: {value.kind}, {value.size_bytes:,} bytes"
    # The text is printable already, and has lines of its own.
    return [panel(title + (", cut" if value.cut else ""), Text(value.text))]


def _letter_side(report: RequestReport) -> list[RenderableType]:
    if report.letters_away is not None:
        away = Text(style="yellow").append(
            unmarked(f"its letters are not known: {report.letters_away}")
        )
        return [panel("dead letter", away)]
    if not report.letters:
        return [panel("dead letter", Text("none", style="dim"))]
    letter = report.letters[-1]
    parts: list[RenderableType] = [
        panel("dead letter", facts_table(_letter_facts(letter))),
        panel("headers as sent", _headers(letter)),
    ]
    if letter.failure.stack:
        parts.append(panel("stack", Text(printable(letter.failure.stack, also="\n\t"))))
    return parts


def _letter_facts(letter: Letter) -> list[FactLine]:
    failure, record = letter.failure, letter.record
    original = failure.original
    facts: list[FactLine] = [
        ("lies in", unmarked(f"{record.topic} {record.partition}/{record.offset}")),
        ("written by", unmarked(f"{letter.dialect.value} {failure.group or ''}".strip())),
        ("failed in", unmarked(place_text(original.topic, original.partition, original.offset))),
        ("sent at", Text(moment(original.timestamp_ms))),
        ("reason", unmarked(failure.reason)),
        ("stage", unmarked(failure.stage)),
        ("exception", unmarked(failure.exception_class)),
        ("message", unmarked(failure.exception_message)),
        ("runs", Text("" if failure.attempts is None else str(failure.attempts))),
        ("first failed at", Text(moment(failure.first_failed_at))),
        ("failed at", Text(moment(letter.failed_at))),
    ]
    if failure.redrive_count:
        redriven = f"{failure.redrive_count} times, last by {failure.redrive_by or 'nobody known'}"
        facts.append(("redriven", unmarked(redriven)))
    return facts


def _journal_side(report: RequestReport) -> list[RenderableType]:
    row = (
        Text("nothing", style="dim") if report.row is None else facts_table(_row_facts(report.row))
    )
    parts: list[RenderableType] = [panel("journal", row)]
    parts.append(panel("what the client sees", _status(report.status, report.away)))
    return parts


def _row_facts(row: Row) -> list[FactLine]:
    result = decoded(row.result.encode(), limit=VALUE_LIMIT).text if row.result else ""
    return [
        ("state", Text(row.state, style="bold")),
        ("code", unmarked(row.code)),
        ("message", unmarked(row.message)),
        ("result", Text(result)),
        ("read from", unmarked(place_text(row.topic, row.partition, row.offset))),
        ("attempt, generation", Text(f"{row.attempt}, {row.generation}")),
        ("effect", unmarked(f"{row.effect_kind or ''} {moment(row.effect_at)}".strip())),
        ("claimed at", Text(moment(row.claimed_at))),
        ("due at", Text(moment(row.due_at))),
        ("finished at", Text(moment(row.finished_at))),
        ("deadline", Text(moment(row.deadline_at))),
        ("resend may help", Text("yes" if row.resend else "")),
        ("by", unmarked(row.by)),
        ("worker", unmarked(row.owner)),
        ("letter written at", Text(moment(row.dead_letter_at))),
    ]


def _status(status: Status | None, away: str | None) -> RenderableType:
    if status is None:
        return unmarked(away)
    result = "" if status.result is None else json.dumps(status.result)[:VALUE_LIMIT]
    return facts_table(
        [
            ("status", Text(status.state.value, style="bold")),
            ("attempt, generation", Text(f"{status.attempt}, {status.generation}")),
            ("code", unmarked(status.code)),
            ("message", unmarked(status.message)),
            ("result", unmarked(result)),
            ("due at", Text(moment(status.due_at))),
            ("updated at", Text(moment(status.updated_at))),
        ]
    )


def _headers(letter: Letter) -> RenderableType:
    facts: list[FactLine] = []
    for name, raw in letter.headers:
        below = name == DLQ_STACKTRACE and letter.failure.stack
        value = "see below" if below else header_text(raw, limit=HEADER_LIMIT)
        facts.append((printable(name), Text(value, style="dim" if below else "")))
    return facts_table(facts, empty=True)
