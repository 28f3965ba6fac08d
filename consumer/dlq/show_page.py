"""One request for a person: letter and journal side by side, or below each other when narrow.

All foreign text is made printable.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from consumer.dlq.dates import moment
from consumer.dlq.decoded import decoded, header_text
from consumer.dlq.letter import Letter
from consumer.dlq.list_page import plain, state_text
from consumer.dlq.report import RequestReport
from consumer.journal.actions import Action
from consumer.journal.lookup import PastRun
from consumer.journal.records import Row
from feedback.console.printable import printable
from feedback.records.failure_headers import DLQ_STACKTRACE
from feedback.statuses import Status

# Terminals of so many columns have room for two panels.
WIDE = 140
VALUE_LIMIT = 4096
HEADER_LIMIT = 300

Fact = tuple[str, RenderableType]


def show_page(
    report: RequestReport, *, width: int, value_limit: int | None = VALUE_LIMIT
) -> RenderableType:
    """Return the page.

    Args:
        width: of the terminal.
        value_limit: so many characters of the value at most; None hides it.
    """
    letter = _letter_side(report, value_limit)
    journal = _journal_side(report)
    if width < WIDE:
        return Group(*letter, *journal)
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column(ratio=1)
    grid.add_column(ratio=1)
    grid.add_row(Group(*letter), Group(*journal))
    return grid


def _letter_side(report: RequestReport, value_limit: int | None) -> list[RenderableType]:
    if not report.letters:
        return [_panel("dead letter", Text("none", style="dim"))]
    *earlier, letter = report.letters
    parts: list[RenderableType] = [
        _panel("dead letter", _facts(_letter_facts(report, letter))),
        _panel("headers as sent", _headers(letter)),
    ]
    if value_limit is not None:
        value = decoded(letter.value, limit=value_limit)
        title = f"value: {value.kind}, {value.size_bytes:,} bytes"
        # The text is printable already, and has lines of its own.
        parts.append(_panel(title + (", cut" if value.cut else ""), Text(value.text)))
    if letter.failure.stack:
        parts.append(_panel("stack", Text(printable(letter.failure.stack, also="\n\t"))))
    if earlier:
        parts.append(_panel("earlier letters", _earlier(earlier)))
    return parts


def _letter_facts(report: RequestReport, letter: Letter) -> list[Fact]:
    failure, record = letter.failure, letter.record
    original = failure.original
    key = decoded(letter.key, limit=HEADER_LIMIT)
    facts: list[Fact] = [("request", plain(report.request_id))]
    if report.state is not None:
        facts.append(("state now", state_text(report.state)))
    facts += [
        ("lies in", plain(f"{record.topic} {record.partition}/{record.offset}")),
        ("written by", plain(f"{letter.dialect.value} {failure.group or ''}".strip())),
        ("failed in", plain(_place(original.topic, original.partition, original.offset))),
        ("sent at", Text(moment(original.timestamp_ms))),
        ("key", Text(key.text if key.kind != "null" else "null")),
        ("reason", plain(failure.reason)),
        ("stage", plain(failure.stage)),
        ("exception", plain(failure.exception_class)),
        ("message", plain(failure.exception_message)),
        ("runs", Text("" if failure.attempts is None else str(failure.attempts))),
        ("first failed at", Text(moment(failure.first_failed_at))),
        ("failed at", Text(moment(letter.failed_at))),
    ]
    if failure.redrive_count:
        redriven = f"{failure.redrive_count} times, last by {failure.redrive_by or 'nobody known'}"
        facts.append(("redriven", plain(redriven)))
    return facts


def _journal_side(report: RequestReport) -> list[RenderableType]:
    row = Text("nothing", style="dim") if report.row is None else _facts(_row_facts(report.row))
    parts: list[RenderableType] = [_panel("journal", row)]
    if report.runs:
        parts.append(_panel("runs before", _runs(report.runs)))
    if report.actions:
        parts.append(_panel("what people did", _actions(report.actions)))
    parts.append(_panel("what the client sees", _status(report.status, report.away)))
    return parts


def _row_facts(row: Row) -> list[Fact]:
    result = decoded(row.result.encode(), limit=VALUE_LIMIT).text if row.result else ""
    return [
        ("state", Text(row.state, style="bold")),
        ("code", plain(row.code)),
        ("message", plain(row.message)),
        ("result", Text(result)),
        ("read from", plain(_place(row.topic, row.partition, row.offset))),
        ("attempt, generation", Text(f"{row.attempt}, {row.generation}")),
        ("effect", plain(f"{row.effect_kind or ''} {moment(row.effect_at)}".strip())),
        ("claimed at", Text(moment(row.claimed_at))),
        ("due at", Text(moment(row.due_at))),
        ("finished at", Text(moment(row.finished_at))),
        ("deadline", Text(moment(row.deadline_at))),
        ("resend may help", Text("yes" if row.resend else "")),
        ("by", plain(row.by)),
        ("worker", plain(row.owner)),
        ("letter written at", Text(moment(row.dead_letter_at))),
    ]


def _status(status: Status | None, away: str | None) -> RenderableType:
    if status is None:
        return plain(away)
    result = "" if status.result is None else json.dumps(status.result)[:VALUE_LIMIT]
    return _facts(
        [
            ("status", Text(status.state.value, style="bold")),
            ("attempt, generation", Text(f"{status.attempt}, {status.generation}")),
            ("code", plain(status.code)),
            ("message", plain(status.message)),
            ("result", plain(result)),
            ("due at", Text(moment(status.due_at))),
            ("updated at", Text(moment(status.updated_at))),
        ]
    )


def _headers(letter: Letter) -> RenderableType:
    facts: list[Fact] = []
    for name, raw in letter.headers:
        below = name == DLQ_STACKTRACE and letter.failure.stack
        value = "see below" if below else header_text(raw, limit=HEADER_LIMIT)
        facts.append((printable(name), Text(value, style="dim" if below else "")))
    return _facts(facts, empty=True)


def _runs(runs: Sequence[PastRun]) -> Table:
    table = _table("generation", "attempt", "claimed at", "ended at", "outcome", "by")
    for run in runs:
        numbers = (str(run.generation), str(run.attempt))
        times = (moment(run.claimed_at), moment(run.ended_at))
        table.add_row(*numbers, *times, plain(run.outcome), plain(run.by_whom))
    return table


def _actions(actions: Sequence[Action]) -> Table:
    table = _table("at", "what", "by", "why")
    for one in actions:
        table.add_row(moment(one.at), plain(one.action), plain(one.by), plain(one.reason))
    return table


def _earlier(letters: Sequence[Letter]) -> Table:
    table = _table("failed at", "runs", "reason", "lies in")
    for one in letters:
        record, runs = one.record, one.failure.attempts
        table.add_row(
            moment(one.failed_at),
            "" if runs is None else str(runs),
            plain(one.failure.reason),
            plain(f"{record.topic} {record.partition}/{record.offset}"),
        )
    return table


def _table(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        table.add_column(name, overflow="fold")
    return table


def _facts(facts: Sequence[Fact], *, empty: bool = False) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", overflow="fold")
    table.add_column(overflow="fold")
    for name, value in facts:
        if empty or not isinstance(value, Text) or value.plain:
            table.add_row(Text(name), value)
    return table


def _panel(title: str, body: RenderableType) -> Panel:
    return Panel(body, title=Text(title), title_align="left", border_style="dim")


def _place(topic: str | None, partition: int | None, offset: int | None) -> str:
    if topic is None:
        return ""
    return topic if partition is None or offset is None else f"{topic} {partition}/{offset}"
