"""Brokers take their classes from a file that is whole, or from none."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from onceward.servers.errors import StackError
from onceward.servers.jars import FEATURES
from onceward.servers.keeper import ServerCommand
from tests.stack import classes

# Told to end, it goes on with what it writes, for longer than anybody waits, or ends.
_WRITER = """
import pathlib, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
pathlib.Path("up").touch()
signal.sigwait({signal.SIGTERM})
pathlib.Path(sys.argv[1]).write_text("a part")
if sys.argv[2] == "slow":
    signal.pause()
"""


@dataclass(frozen=True, slots=True)
class _Writer:
    """In the place of a broker."""

    speed: str
    classes_to: Path
    kind: ClassVar[str] = "kafka"
    name: str = "writer"
    address: str = ""
    ready_within_s: float = 30.0

    def prepare(self, folder: Path) -> tuple[ServerCommand, ...]:
        (folder / "data").mkdir()
        (folder / "data" / FEATURES).touch()
        return ()

    def command(self, folder: Path) -> ServerCommand:
        argv = (sys.executable, "-c", _WRITER, str(self.classes_to), self.speed)
        return ServerCommand(argv=argv, folder=folder, log=folder / "log")

    def answers(self, folder: Path) -> bool:
        return (folder / "up").exists()


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return how the classes are written by a broker that is fast or slow; returns their file."""

    def write(speed: str) -> Path:
        file = tmp_path / "classes.jsa"
        monkeypatch.setattr(
            classes, "Broker", lambda *, classes_to: _Writer(speed, classes_to=classes_to)
        )
        monkeypatch.setattr(classes, "classes_file", lambda: file)
        monkeypatch.setattr(classes, "features_file", lambda: tmp_path / FEATURES)
        classes.write_classes()
        return file

    return write


def test_classes_of_a_broker_that_ended_are_kept(written: Callable[[str], Path]) -> None:
    assert written("fast").exists()


def test_of_a_broker_that_was_killed_while_it_wrote_nothing_is_kept(
    written: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classes, "WRITE_LIMIT_S", 1.0)
    with pytest.raises(StackError, match="did not write its classes"):
        written("slow")
    assert not (tmp_path / "classes.jsa").exists()
