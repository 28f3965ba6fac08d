"""Each tutorial is followed on real servers: its files, its commands and their output."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documents import DOCS, ROOT
from tests.preloaded.programs import INSTALLED, forked_programs
from tests.stack import Servers
from tests.tutorials.page import BadPage, Command, steps
from tests.tutorials.reader import Reader, reading

PAGES = sorted(path for path in (DOCS / "tutorials").glob("*.md") if path.stem != "index")
# Its audit alone is a minute of Spark.
LONG = {"on-call"}


# It types the installed programs; the others forks of them, where they end by themselves.
AS_INSTALLED = "first-handler"


@pytest.fixture
def reader(request: pytest.FixtureRequest, tmp_path: Path, servers: Servers) -> Iterator[Reader]:
    """Yield somebody with Onceward installed."""
    with forked_programs() as forked:
        typed = [] if AS_INSTALLED in request.node.name else [forked]
        with reading(
            tmp_path, servers, programs=[*typed, INSTALLED], PYTHONPATH=str(ROOT)
        ) as reader:
            yield reader


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.long] if path.stem in LONG else [])
        for path in PAGES
    ],
)
def test_a_page_is_followed_to_its_end(page: Path, reader: Reader) -> None:
    followed = list(steps(page.read_text("utf-8")))
    assert any(isinstance(one, Command) and one.output for one in followed)
    for step in followed:
        reader.follow(step)


@pytest.mark.parametrize("block", ["```python\nx = 1\n```", "```console\nls\n```"])
def test_a_block_that_says_nothing_to_do_is_refused(block: str) -> None:
    with pytest.raises(BadPage):
        list(steps(block))


def test_an_output_that_differs_ends_the_page(reader: Reader) -> None:
    with pytest.raises(AssertionError, match="the page shows"):
        reader.follow(Command("echo a; echo b", "a\n"))


def test_what_one_command_sets_the_next_one_has(reader: Reader) -> None:
    for line, output in (("a=payments", ""), ("cat", ""), ("echo $a", "payments\n"), ("false", "")):
        reader.follow(Command(line, output))
