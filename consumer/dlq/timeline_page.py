"""The first part of a request's page: its facts in short, its timeline, and what could come next.

All foreign text is made printable.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from consumer.dlq.dates import instant, moment
from consumer.dlq.decoded import decoded
from consumer.dlq.letter_state import ours_in_words
from consumer.dlq.list_page import state_text, unmarked
from consumer.dlq.next_commands import NextCommand
from consumer.dlq.report import RequestReport
from consumer.dlq.timeline import timeline_of
from consumer.dlq.timeline_words import event_words, holder_words
from consumer.dlq.unfinished import unfinished_words

FactLine = tuple[str, RenderableType]


def facts_table(facts: Sequence[FactLine], *, empty: bool = False) -> Table:
    """Return names and values in two columns.

    Args:
        empty: whether facts without text are shown as well.
    """
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", overflow="fold")
    table.add_column(overflow="fold")
    for name, value in facts:
        if empty or not isinstance(value, Text) or value.plain:
            table.add_row(Text(name), value)
    return table


def plain_table(*names: str) -> Table:
    """Return an empty table with a heading and no lines; nothing in it is cut."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        table.add_column(name, overflow="fold")
    return table


def panel(title: str, body: RenderableType) -> Panel:
    """Return a panel; nothing in its title is markup."""
    return Panel(body, title=Text(title), title_align="left", border_style="dim")


KEY_LIMIT = 300


def request_panel(report: RequestReport, *, is_value_shown: bool) -> RenderableType:
    """Return what a person wants to know first."""
    return panel("request", facts_table(_facts(report, is_value_shown=is_value_shown)))


def timeline_panel(report: RequestReport) -> RenderableType:
    """Return the events in the order of time; those that lie ahead are said to."""
    table = plain_table("at", "by the clock of", "what")
    for event in timeline_of(report):
        is_ahead = event.at > report.now
        text = Text("to come: " if is_ahead else "", style="dim") + unmarked(event_words(event))
        table.add_row(Text(instant(event.at)), Text(event.clock.value, style="dim"), text)
    return panel("timeline", table)


def next_lines(commands: Sequence[NextCommand]) -> list[str]:
    """Return the commands as lines that a shell takes, all of them at once too.

    No panel is around them: what is copied from a terminal is the command alone.
    """
    lines = ["", "what could come next:"] if commands else []
    for one in commands:
        lines += [f"# {one.why}", one.command]
    return lines


def _facts(report: RequestReport, *, is_value_shown: bool) -> list[FactLine]:
    topic = report.topic or "not known"
    pause = report.pause
    paused = "" if pause is None else f"; paused since {moment(pause.since)} by {pause.by}"
    why = "" if pause is None else f": {pause.reason}"
    facts: list[FactLine] = [
        ("request", unmarked(report.request_id)),
        ("group", unmarked(report.group)),
        ("topic", unmarked(topic) + Text(style="yellow").append(unmarked(paused + why))),
        ("journal says", _journal_state(report)),
        ("client sees", _seen(report)),
    ]
    if report.state is not None:
        ours = "" if report.ours is None else f" ({ours_in_words(report.ours)})"
        facts.append(("its letter", state_text(report.state) + Text(ours)))
    if report.unsent_by is not None:
        facts.append(("redrive", unmarked(unfinished_words(report.unsent_by))))
    facts.append(("held by", unmarked(holder_words(report.holder))))
    *void, last = report.idempotency_keys or [""]
    facts += [("idempotency key", Text(last)), ("void keys", Text(" ".join(void)))]
    facts += [("key", _bytes(report, report.key)), ("value", _value(report, is_value_shown))]
    return facts


def _journal_state(report: RequestReport) -> Text:
    row = report.row
    if row is None:
        return Text("nothing", style="dim")
    return Text(row.state, style="bold") + unmarked(f" {row.code}" if row.code else "")


def _seen(report: RequestReport) -> Text:
    if report.status is None:
        return unmarked(report.away)
    return Text(report.status.state.value, style="bold")


def _bytes(report: RequestReport, raw: bytes | None) -> Text:
    if not (report.row or report.has_value):
        return Text("not known", style="dim")
    found = decoded(raw, limit=KEY_LIMIT)
    return Text("null" if found.kind == "null" else found.text)


def _value(report: RequestReport, is_shown: bool) -> Text:
    if not report.has_value:
        return Text("not kept: it is in its topic", style="dim")
    found = decoded(report.value, limit=1)
    size = "null" if found.kind == "null" else f"{found.kind}, {found.size_bytes:,} bytes"
    return Text(size if is_shown else f"{size}; --value shows it")
