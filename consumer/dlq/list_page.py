"""A list of letters for a person. All foreign text is made printable."""

from __future__ import annotations

import os

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from consumer.dlq.dates import moment, whole_units
from consumer.dlq.decoded import MESSAGE_LIMIT
from consumer.dlq.letter_state import LetterState, ours_in_words
from consumer.dlq.tally import BARS, NONE, HistogramBar, LetterTally, ListedLetter, NameCounts
from feedback.console.plurals import counted
from feedback.console.printable import printable

BAR_WIDTH = 40
# The page shows so many names of each kind; the JSON has all of them.
MOST_NAMES = 10
# Without a terminal nothing has to fit: nobody wants lines cut in a log.
FREE_WIDTH = 240
_TOPIC_LIMIT, _REASON_LIMIT = 40, 30

_COLOURS = {
    LetterState.OPEN: "red",
    LetterState.UNSENT: "red",
    LetterState.IN_DOUBT: "yellow",
    LetterState.UNKNOWN: "yellow",
    LetterState.REPAIRED: "green",
}


def console_for(*, stderr: bool = False) -> Console:
    """Return a console, wide where neither a terminal nor `COLUMNS` cuts its lines."""
    console = Console(stderr=stderr, highlight=False)
    if console.is_terminal or os.environ.get("COLUMNS", "").isdigit():
        return console
    return Console(width=FREE_WIDTH, highlight=False)


def list_page(tally: LetterTally, *, width: int, doubts: int = 0, now: int) -> RenderableType:
    """Return the page.

    Args:
        doubts: how many requests of the group are in doubt, most of them without a letter.
    """
    parts: list[RenderableType] = [_heading(tally)]
    if doubts:
        open_ones = "1 open doubt" if doubts == 1 else f"{doubts:,} open doubts"
        parts.append(Text(f"{open_ones}: see list --state in_doubt", style="yellow"))
    if tally.shown:
        parts += counts_and_times(tally)
    newest = tally.newest()
    if newest:
        parts += _letters(newest, width, now)
    if tally.shown > len(newest):
        parts.append(older_ones(tally.shown - len(newest)))
    return Group(*parts)


def older_ones(count: int) -> str:
    """Return a sentence about what a limit leaves out."""
    return f"{count:,} older {'one is' if count == 1 else 'ones are'} not listed: see --limit"


def counts_and_times(tally: LetterTally) -> list[RenderableType]:
    """Return the counts by kind, by message, and by time."""
    messages = [_names("message", tally.messages)] if set(tally.messages.counts) != {NONE} else []
    return [_counts(tally), *messages, _times(tally)]


def unmarked(text: str | None) -> Text:
    """Return foreign text for a terminal: nothing in it is markup."""
    return Text(printable(text or ""))


def state_text(state: LetterState) -> Text:
    """Return a state in its colour."""
    return Text(state.value.replace("_", " "), style=_COLOURS.get(state, ""))


def _heading(tally: LetterTally) -> Text:
    heading = Text(counted(tally.shown, "dead letter"), style="bold")
    if tally.shown:
        heading.append(f", {moment(tally.oldest_ms)} to {moment(tally.newest_ms)}", style="none")
    states = [f"{tally.states[one]:,} {one.value}" for one in LetterState if tally.states[one]]
    if states:
        heading.append(f"   all: {', '.join(states)}".replace("_", " "), style="dim")
    return heading


def _counts(tally: LetterTally) -> Table:
    grid = Table.grid(padding=(0, 4))
    columns = [_names("reason", tally.reasons)]
    if tally.codes.counts != tally.reasons.counts:
        columns.append(_names("code", tally.codes))
    columns += [_names("exception", tally.classes), _names("topic", tally.topics)]
    if len(tally.dialects.counts) > 1:
        columns.append(_names("written by", tally.dialects))
    grid.add_row(*columns)
    return grid


def _names(title: str, names: NameCounts) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column(title, header_style="bold", overflow="fold")
    common = names.most_common()
    for name, count in common[:MOST_NAMES]:
        table.add_row(f"{count:,}", unmarked(name))
    rest = common[MOST_NAMES:]
    if rest:
        table.add_row(f"{sum(count for _, count in rest):,}", f"of {len(rest):,} more")
    return table


def _times(tally: LetterTally) -> Table:
    bars = tally.times.bars(BARS)
    most = max(bar.letters for bar in bars)
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    for bar in bars:
        table.add_row(moment(bar.begin_ms), f"{bar.letters:,}", Text(_bar(bar, most), style="blue"))
    return table


def _bar(bar: HistogramBar, most: int) -> str:
    length = round(BAR_WIDTH * bar.letters / most)
    return "█" * max(length, 1 if bar.letters else 0)


def _letters(newest: list[ListedLetter], width: int, now: int) -> list[RenderableType]:
    """Return two lines for each letter, so that a narrow terminal has all but a message's end."""
    lines: list[RenderableType] = [Text("age   request, state, failed at", style="bold")]
    for one in newest:
        # A cut id is of no use: one that is longer than the line goes on in the next.
        first = Text(f"{whole_units(now - one.failed_at):>4}  ", overflow="fold")
        first += unmarked(one.request_id) + Text("  ") + state_text(one.state)
        if one.ours is not None:
            first.append(f" ({ours_in_words(one.ours)})")
        at = Text(f"  {moment(one.failed_at)}")
        lines.append(first + at if len(first) + len(at) <= width else first)
        second = Text("      ") + unmarked(_failure_words(one))
        second.truncate(width, overflow="ellipsis")
        lines.append(second)
    return lines


def _failure_words(one: ListedLetter) -> str:
    failure = one.failure
    partition, offset = failure.original.partition, failure.original.offset
    words = f"{_cut(failure.reason or NONE, _REASON_LIMIT)} in {_cut(one.topic, _TOPIC_LIMIT)}"
    if partition is not None and offset is not None:
        words += f" {partition}/{offset}"
    if failure.attempts is not None:
        words += f", {counted(failure.attempts, 'run')}"
    message = (failure.exception_message or "")[:MESSAGE_LIMIT]
    return f"{words}: {message}" if message else words


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
