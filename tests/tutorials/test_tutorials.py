"""Each tutorial is followed on real servers: its files, its commands and their output."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from onceward.servers.ports import free_port
from tests.documents import DOCS, ROOT
from tests.kit.settings import environment
from tests.stack import Servers
from tests.tutorials.page import BadPage, Command, File, has_come, is_as_shown, steps
from tests.tutorials.terminal import Terminal

PAGES = sorted(path for path in (DOCS / "tutorials").glob("*.md") if path.stem != "index")
# Its audit alone is a minute of Spark.
LONG = {"on-call"}
# The topic and the group of all pages, and the port of a front-end.
TOPIC, PORT = "payments", "18000"


@dataclass(slots=True)
class Reader:
    """Somebody who follows a page in an empty folder.

    Attributes:
        names: of the page, with the ones in their place that no other test has.
    """

    folder: Path
    environ: dict[str, str]
    names: dict[str, str]
    ends: ExitStack
    terminals: dict[str, Terminal] = field(default_factory=dict)

    def follow(self, step: File | Command) -> None:
        """Do one step, and compare its output."""
        if isinstance(step, File):
            (self.folder / self._renamed(step.name)).write_text(self._renamed(step.text))
        elif step.terminal:
            self._start(step)
        else:
            printed = self._as_the_page(self._terminal("").run(self._renamed(step.line)))
            assert is_as_shown(step.output, printed), (
                f"$ {step.line}\n{printed}\n--- the page shows:\n{step.output}"
            )

    def _start(self, step: Command) -> None:
        terminal = self._terminal(step.terminal)
        terminal.start(self._renamed(step.line))
        terminal.await_(lambda text: has_come(step.output, self._as_the_page(text)))

    def _terminal(self, name: str) -> Terminal:
        if name not in self.terminals:
            opened = Terminal(self.folder, self.environ)
            self.ends.callback(opened.close)
            self.terminals[name] = opened
        return self.terminals[name]

    def _renamed(self, text: str) -> str:
        for name, own in self.names.items():
            text = text.replace(name, own)
        return text

    def _as_the_page(self, text: str) -> str:
        for name, own in self.names.items():
            text = text.replace(own, name)
        return text


@pytest.fixture
def reader(tmp_path: Path, servers: Servers) -> Iterator[Reader]:
    """Yield somebody with Onceward installed, and servers that run."""
    topic = f"p{uuid.uuid4().hex}"[: len(TOPIC)]
    environ = environment(
        PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        PYTHONPATH=str(ROOT),
        COLUMNS="100",
        ONCEWARD_KAFKA__BOOTSTRAP_SERVERS=servers.kafka,
        ONCEWARD_REDIS__URL=servers.redis,
    )
    with ExitStack() as ends:
        names = {
            TOPIC: topic,
            PORT: str(free_port()),
            "onceward init": f"onceward init --topic {topic}",
        }
        yield Reader(tmp_path, environ, names, ends)


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
