"""Ten questions (tests/questions.toml) are answered within three clicks of README.md."""

from __future__ import annotations

import posixpath
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.documents import ROOT

MOST_CLICKS = 3
QUESTIONS: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("questions.toml").read_text("utf-8")
)["question"]


def links(page: str) -> set[str]:
    """Return the pages to which a page leads, by its links."""
    text, folder = (ROOT / page).read_text("utf-8"), posixpath.dirname(page)
    named = re.findall(r"\]\(([^)#:]+\.md)", text)
    return {posixpath.normpath(posixpath.join(folder, one)) for one in named}


def part(page: str, heading: str) -> str:
    """Return what stands below a heading of a page; empty where there is none."""
    found = re.search(
        rf"^(#+) {re.escape(heading)}\n(.*?)(?=^#|\Z)",
        (ROOT / page).read_text("utf-8"),
        re.M | re.S,
    )
    return "" if found is None else found[2]


def test_there_are_ten() -> None:
    assert len(QUESTIONS) == 10


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda one: str(one["asks"]))
def test_a_question_is_answered_within_three_clicks(question: dict[str, Any]) -> None:
    way: list[str] = question["way"]
    assert len(way) <= MOST_CLICKS
    here = "README.md"
    for step in way:
        if step.endswith(".md"):
            assert step in links(here), f"{here} has no link to {step}"
            here, said = step, (ROOT / step).read_text("utf-8")
        else:
            said = part(here, step)
    assert question["answer"] in said


def test_a_link_that_is_not_there_and_a_heading_that_is_not_there_are_seen() -> None:
    assert "docs/how-to/no-such-page.md" not in links("README.md")
    assert part("docs/how-to/upgrades.md", "No such heading") == ""
