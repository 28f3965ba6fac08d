"""A program runs wherever its interpreter lies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.script import write_script

LIMIT_S = 60.0


def test_a_program_runs_though_the_interpreter_has_a_blank_and_a_quote_in_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "it's an ü" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(python))
    told = "import sys\nprint(sys.flags.isolated, sys.argv)"
    script = write_script(tmp_path / "script", told, "-IS")
    said = subprocess.check_output((script, "a b", "-c"), text=True, timeout=LIMIT_S)
    assert said == f"1 {[str(script), 'a b', '-c']}\n"
