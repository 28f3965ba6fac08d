"""`onceward-audit report` of a day whose last run died: an older verdict is not that day's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from feedback.errors import ExitCode
from spark_audit.stage.snapshot import Snapshot
from tests.kit.settings import environment
from tests.spark_audit.command import ROOT
from tests.spark_audit.say.samples import summary
from tests.spark_audit.stage.samples import DATE


def _report(
    folder: Path, *, read_at_ms: int, **changed: object
) -> subprocess.CompletedProcess[str]:
    """Report a day whose good verdict is of another reading than its snapshot, if that differs."""
    found = summary() | {"date": DATE} | changed
    files = {
        folder / "audit" / "reports" / f"date={DATE}" / "summary.json": found,
        Snapshot.of(folder / "audit", DATE).manifest: {
            "frozen_at_ms": read_at_ms or found["frozen_at_ms"]
        },
    }
    for path, content in files.items():
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(content))
    config = folder / "onceward.toml"
    config.write_text(f'[audit]\noutput = "{folder / "audit"}"\n')
    return subprocess.run(
        [sys.executable, "-m", "spark_audit", "report", "--config", str(config), "--date", DATE],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_verdict_of_the_snapshot_is_said_again(tmp_path: Path) -> None:
    assert _report(tmp_path, read_at_ms=0).returncode == ExitCode.FINE


def test_a_verdict_of_an_earlier_reading_is_not_taken_for_the_days(tmp_path: Path) -> None:
    ended = _report(tmp_path, read_at_ms=2)
    assert ended.returncode == ExitCode.NOT_AVAILABLE
    assert "was read again and has not been judged since" in ended.stderr


def test_a_verdict_of_a_part_of_a_day_is_not_taken_for_the_days(tmp_path: Path) -> None:
    noon = summary()["until_ms"] - 1
    ended = _report(tmp_path, read_at_ms=noon, frozen_at_ms=noon)
    assert ended.returncode == ExitCode.NOT_AVAILABLE
    assert "was judged before it was over" in ended.stderr
