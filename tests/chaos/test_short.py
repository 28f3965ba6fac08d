"""The short form of the table: nothing runs twice, everybody is told, and told the truth.

How fast that goes is the full table's matter: a figure of time is not looked at here.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.place import ROOT
from tests.chaos.rows import ROWS, SHORT
from tests.chaos.running import run_row
from tests.kit.settings import environment
from tests.stack import Servers

SEED = 1
ENDS_WITHIN_S = 60.0
CHAOS = (sys.executable, "-m", "tests.chaos")


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", SHORT)
def test_nothing_runs_twice_and_everybody_is_told(
    fault: str, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in servers.settings():
        monkeypatch.delenv(name, raising=False)

    result = run_row(ROWS[fault], seed=SEED, short=True, servers=servers, folder=tmp_path / "row")

    assert result.account.requests > 0
    assert result.account.kept, result.reasons
    assert all(figure.timed for figure in result.missed), result.reasons


def chaos(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (*CHAOS, *arguments),
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=ENDS_WITHIN_S,
    )


@pytest.mark.long
def test_the_list_names_every_fault_and_its_journal() -> None:
    done = chaos("--list")

    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(ROWS)


@pytest.mark.long
def test_a_fault_that_is_not_there_is_a_wrong_usage() -> None:
    done = chaos("comet")

    assert done.returncode == 2
    assert "comet" in done.stderr


@pytest.mark.long
def test_without_servers_it_says_how_to_have_them(tmp_path: Path) -> None:
    done = chaos("none", "--output", str(tmp_path))

    assert done.returncode == 3
    assert "make chaos" in done.stdout
    assert not (tmp_path / "chaos.json").exists()


@pytest.mark.long
def test_the_table_of_the_last_run_is_printed_for_the_readme(tmp_path: Path) -> None:
    counts = dict.fromkeys(("ran_twice", "never_told", "told_wrongly", "in_doubt", "resent"), 0)
    row = {"fault": "none", "seed": 4, "journal": "sqlite", "requests": 3000, **counts}
    row |= {"told_p95_s": 0.1, "told_max_s": 0.2}
    (tmp_path / "chaos.json").write_text(json.dumps([row]))

    done = chaos("--markdown", "--output", str(tmp_path))

    assert done.returncode == 0
    assert "seed 4" in done.stdout
    assert "| none | sqlite | 3,000 | 0 | 0 | 0 | 0 | 0 | 0.1 | 0.2 |" in done.stdout
