"""The commands that prepare tests name what is missing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.eventually import eventually

ROOT = Path(__file__).parents[2]
LIMIT_S = 60.0
# As Maven, where the network is slow.
MAVEN = "#!/bin/sh\nexec sleep 600\n"


@pytest.mark.parametrize("module", ["tests.spark_audit.jars", "tests.kit.axe"])
def test_told_to_end_while_it_fetches_it_leaves_nothing_running_or_lying(
    module: str, tmp_path: Path
) -> None:
    maven = tmp_path / "mvn"
    maven.write_text(MAVEN)
    maven.chmod(0o755)
    ended = subprocess.Popen(
        (sys.executable, "-m", module),
        cwd=ROOT,
        env=os.environ
        | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "XDG_CACHE_HOME": str(tmp_path)},
    )
    (child,) = eventually(lambda: psutil.Process(ended.pid).children())
    eventually(lambda: child.name() == "sleep")
    ended.terminate()
    assert ended.wait(LIMIT_S) == 128 + signal.SIGTERM
    assert not child.is_running()
    assert [*(tmp_path / "onceward").glob("*.part-*")] == []


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
