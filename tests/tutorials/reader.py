"""Somebody who follows a page in an empty folder: writes its files, types, compares."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from onceward.servers.ports import free_port
from tests.kit.settings import environment
from tests.stack import Servers
from tests.tutorials.page import Command, File, has_come, is_as_shown
from tests.tutorials.terminal import Terminal

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
            printed = self.output_of(step.line)
            assert is_as_shown(step.output, printed), (
                f"$ {step.line}\n{printed}\n--- the page shows:\n{step.output}"
            )

    def output_of(self, line: str) -> str:
        """Type a command in the first terminal; return its output when it has ended."""
        return self._as_the_page(self._terminal("").run(self._renamed(line)))

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


@contextmanager
def reading(
    folder: Path, servers: Servers, *, programs: Sequence[Path], **variables: str
) -> Iterator[Reader]:
    """Yield somebody with servers that run; what was started ends with it.

    Args:
        programs: the folders in which Onceward's commands are.
        variables: more of the environment.
    """
    topic = f"p{uuid.uuid4().hex}"[: len(TOPIC)]
    environ = environment(
        PATH=os.pathsep.join([*map(str, programs), os.environ["PATH"]]),
        COLUMNS="100",
        ONCEWARD_KAFKA__BOOTSTRAP_SERVERS=servers.kafka,
        ONCEWARD_REDIS__URL=servers.redis,
        **variables,
    )
    names = {
        TOPIC: topic,
        PORT: str(free_port()),
        "onceward init": f"onceward init --topic {topic}",
    }
    with ExitStack() as ends:
        yield Reader(folder, environ, names, ends)
