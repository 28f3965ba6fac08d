"""A road between lanes, from lines like `client -> Kafka: send`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from docs.drawings.frame import framed, words

LANE, TOP, STEP, MARGIN = 146, 62, 31, 74
HEAD = 6
_LINE = re.compile(r"(?P<begin>[^:>]+?) -> (?P<end>[^:>]+?): (?P<words>.+)")


class Step(NamedTuple):
    """One arrow: from lane to lane, with its words."""

    begin: str
    end: str
    words: str


def sequence(text: str) -> str:
    """Return a picture of a text: a title, a line of lanes with bars between them, and the steps.

    Raises:
        ValueError: a line is no step, or names another lane.
    """
    title, lanes, *lines = [line.strip() for line in text.splitlines() if line.strip()]
    places = {name.strip(): MARGIN + LANE * n for n, name in enumerate(lanes.split("|"))}
    steps = [_step(line, places) for line in lines]
    width = 2 * MARGIN + LANE * (len(places) - 1)
    height = TOP + STEP * len(steps) + 22
    return framed(title, width, height, _parts(places, steps, height))


def _step(line: str, places: dict[str, int]) -> Step:
    found = _LINE.fullmatch(line)
    if found is None or not {found["begin"], found["end"]} <= set(places):
        raise ValueError(f"no step between lanes: {line}")
    return Step(found["begin"], found["end"], found["words"])


def _parts(places: dict[str, int], steps: list[Step], height: int) -> Iterator[str]:
    for name, x in places.items():
        yield words(name, x, 28, style="text strong")
        yield f'<path class="line" stroke-dasharray="3 4" d="M{x} 40V{height - 14}"/>'
    for number, step in enumerate(steps):
        y = TOP + STEP * number + 12
        begin, end = places[step.begin], places[step.end]
        side = 1 if end > begin else -1
        yield f'<path class="arrow" stroke-width="1.6" d="M{begin} {y}H{end - side * HEAD}"/>'
        yield f'<path class="head" d="M{end} {y}l{-side * 8} -4v8z"/>'
        yield words(step.words, (begin + end) / 2, y - 6, style="text small")
