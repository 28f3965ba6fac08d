"""The command: what it leaves behind, and what it refuses."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.launching import ROOT
from tests.bench.modes.__main__ import main
from tests.bench.modes.mode import Mode
from tests.stack import Servers


def modes(servers: Servers, output: Path, *options: str) -> subprocess.CompletedProcess[str]:
    argv = (sys.executable, "-m", "tests.bench.modes", "--output", str(output), *options)
    return subprocess.run(
        argv,
        cwd=ROOT,
        env=os.environ | servers.settings(),
        capture_output=True,
        text=True,
        timeout=100,
    )


# The load lasts its seconds, and each of these starts all processes of the comparison.
@pytest.mark.long
@pytest.mark.parametrize(
    ("mode", "ceiling"),
    [(Mode.AT_MOST_ONCE, 35.714), (Mode.AT_LEAST_ONCE, 35.714), (Mode.BATCH, 10.0)],
)
def test_a_short_load_leaves_a_row_a_table_and_a_chart(
    servers: Servers, tmp_path: Path, mode: Mode, ceiling: float
) -> None:
    options = f"--modes {mode} --arms slow --n 10 --seconds 6"
    ended = modes(servers, tmp_path, *options.split())
    assert (ended.returncode, ended.stderr) == (0, "")
    (row,) = json.loads((tmp_path / "modes.json").read_text())
    assert (row["mode"], row["n"], row["arm"]) == (mode, 10, "slow")
    assert row["ceiling_tps"] == pytest.approx(ceiling)
    # A loaded machine has less, and of so few calls one burst is some percent. N in flight, who
    # waited for the slowest would have 0.28.
    assert 0.4 < row["share_of_ceiling"] < 1.1
    assert f"slow, {mode}" in ended.stdout
    assert "<polyline" in (tmp_path / "modes-slow-10.svg").read_text()


@pytest.mark.long
def test_a_load_that_is_too_short_says_so(servers: Servers, tmp_path: Path) -> None:
    options = "--modes at_most_once --arms slow --n 4 --seconds 0.5"
    ended = modes(servers, tmp_path, *options.split())
    assert ended.returncode == 1
    assert "the load has to last longer" in ended.stderr
    assert not (tmp_path / "modes.json").exists()


@pytest.mark.parametrize(
    "options", [("--modes", "nobody"), ("--arms", "storm"), ("--n", "7"), ("--n", "x")]
)
def test_what_is_not_known_is_a_fault_of_usage(
    tmp_path: Path, options: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--output", str(tmp_path), *options])
    assert ended.value.code == 2
    assert "usage:" in capsys.readouterr().err
