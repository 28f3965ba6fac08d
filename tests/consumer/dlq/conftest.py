"""Stages whose handlers fail, and `onceward-dlq` run in this process."""

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from consumer.dlq.commands import cli
from tests.consumer.features.dead_letters.conftest import make_box as make_box


@dataclass(frozen=True, slots=True)
class Done:
    """What a command left behind."""

    code: int
    stdout: str
    stderr: str


Dlq = Callable[..., Done]


@pytest.fixture
def dlq(monkeypatch: pytest.MonkeyPatch) -> Dlq:
    """Return `dlq(config, *arguments)`: the command, as it prints where there is no terminal."""

    def run(config: Path, *arguments: str) -> Done:
        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            patch.setattr(sys, "stdin", io.StringIO())
            with pytest.raises(SystemExit) as ended:
                cli([*arguments, "--config", str(config)])
        code = ended.value.code
        assert isinstance(code, int)
        texts = []
        for stream in (out, err):
            stream.flush()
            stream.seek(0)
            texts.append(stream.read())
        return Done(code, *texts)

    return run
