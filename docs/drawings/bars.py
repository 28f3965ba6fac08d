"""A chart of bars: one figure for each name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from docs.drawings.frame import framed, words

WIDTH, LABEL, ROW, TOP = 760, 210, 34, 48
# Of a label in a wide one of the frame's fonts, and of a figure right of its bar.
LETTER, FIGURE = 7.4, 90
OURS = "Onceward"


class Bar(NamedTuple):
    """A name and its figure."""

    label: str
    value: int


def bars(title: str, found: Sequence[Bar], note: str) -> str:
    """Return a chart; the longest bar is the highest figure."""
    height = TOP + ROW * len(found) + 34
    return framed(title, WIDTH, height, _parts(title, found, note, height))


def _parts(title: str, found: Sequence[Bar], note: str, height: int) -> Iterator[str]:
    most = max(one.value for one in found)
    label = max(LABEL, *(round(LETTER * len(one.label)) + 18 for one in found))
    yield words(title, 18, 28, style="text strong", anchor="start")
    for number, one in enumerate(found):
        y = TOP + ROW * number
        length = round((WIDTH - label - FIGURE) * one.value / most)
        style = "bar" if one.label.startswith(OURS) else "other"
        yield words(one.label, label - 10, y + 17, anchor="end")
        yield f'<rect class="{style}" x="{label}" y="{y + 2}" width="{length}" height="22" rx="3"/>'
        yield words(f"{one.value:,}", label + length + 8, y + 18, anchor="start")
    yield words(note, 18, height - 14, style="soft small", anchor="start")
