"""The commands that prepare tests name what is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIMIT_S = 60.0


@pytest.mark.parametrize("module", ["tests.spark_audit.jars", "tests.kit.axe"])
def test_a_missing_program_is_one_sentence(module: str, tmp_path: Path) -> None:
    ended = subprocess.run(
        (sys.executable, "-m", module),
        cwd=ROOT,
        env=os.environ | {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("not installed: maven")
    assert ended.stderr.count("\n") == 1
