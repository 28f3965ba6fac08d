"""Running `onceward-client`: in a process of its own, or in this one to save its start."""

import io
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest

from producer_client.commands.commands import cli

LIMIT_S = 60


@dataclass(frozen=True, slots=True)
class Done:
    """What a command left behind."""

    code: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


def run_apart(arguments: tuple[str, ...], *, stdin: str, environment: Mapping[str, str]) -> Done:
    """Run the command as users do."""
    process = subprocess.run(
        [sys.executable, "-m", "producer_client", *arguments],
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        env=environment,
        timeout=LIMIT_S,
    )
    return Done(process.returncode, process.stdout, process.stderr)


def run_here(
    arguments: tuple[str, ...],
    *,
    stdin: str,
    environment: Mapping[str, str],
    capsys: pytest.CaptureFixture[str],
) -> Done:
    """Run the command in this process: a new interpreter takes a second."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            if name.startswith("ONCEWARD_"):
                patch.setenv(name, value)
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        with pytest.raises(SystemExit) as ended:
            cli(list(arguments))
    code = ended.value.code
    assert isinstance(code, int)
    return Done(code, *capsys.readouterr())
