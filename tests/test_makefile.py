"""`make` passes a signal on, and runs on machines that lack what a login brings along."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIMIT_S = 60.0
# As `make test` has it that runs this test, which is no matter of the one under test.
OF_MAKE = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
WORDS = "two words"
# A program that has these words among its arguments waits to be told to end.
PYTHON = f"""
import signal, sys
if any("{WORDS}" in one for one in sys.argv):
    signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGTERM}})
    print("up", flush=True)
    told = signal.sigtimedwait({{signal.SIGTERM}}, 20)
    print("told" if told else "never told", flush=True)
"""
# As Sphinx begins.
SPHINX = "import locale; locale.setlocale(locale.LC_ALL, '')"


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """Return a virtual environment with programs that only look at how they are started."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("python", PYTHON), ("sphinx-build", SPHINX)):
        (programs / name).write_text(f"#!{sys.executable}\n{text}")
        (programs / name).chmod(0o755)
    (tmp_path / ".ready").touch()
    return tmp_path


def make(environment: Path, *words: str, **variables: str) -> subprocess.Popen[str]:
    ours = {name: value for name, value in os.environ.items() if name not in OF_MAKE}
    return subprocess.Popen(
        ("make", "-C", str(ROOT), f"VENV={environment}", *words),
        env=ours | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize("target", ["test", "demo", "simulate", "bench", "chaos", "fuzz"])
def test_a_signal_reaches_the_command_also_where_its_arguments_have_quotes(
    environment: Path, target: str
) -> None:
    command = make(environment, target, f'ARGS=-k "{WORDS}"')
    assert command.stdout is not None
    assert any(line == "up\n" for line in command.stdout)
    command.terminate()
    said, _ = command.communicate(timeout=LIMIT_S)
    assert "told" in said.splitlines()


def test_the_documentation_is_built_where_the_language_of_the_login_is_not_installed(
    environment: Path,
) -> None:
    docs = make(environment, "docs", LC_ALL="xx_XX.UTF-8")
    said, _ = docs.communicate(timeout=LIMIT_S)
    assert docs.returncode == 0, said
