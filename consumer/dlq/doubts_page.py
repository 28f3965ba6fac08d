"""The counts of the requests in doubt, for a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from consumer.dlq.dates import moment
from consumer.dlq.doubts_list import DoubtsFound
from consumer.dlq.list_page import counts_and_times, older_ones
from feedback.console.plurals import counted


def doubts_page(found: DoubtsFound) -> RenderableType:
    """Return the counts."""
    tally = found.counts
    heading = Text(counted(tally.shown, "open doubt"), "bold")
    if not tally.shown:
        return heading
    heading.append(f", {moment(tally.oldest_ms)} to {moment(tally.newest_ms)}", style="none")
    parts: list[RenderableType] = [heading, *counts_and_times(tally)]
    if tally.shown > len(found.newest):
        parts.append(older_ones(tally.shown - len(found.newest)))
    return Group(*parts)
