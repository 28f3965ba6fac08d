"""A day that has not begun: told before anything is started."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from feedback.errors import ExitCode
from tests.consumer.running import environment

ROOT = Path(__file__).parents[3]
LIMIT_S = 60.0


def test_a_date_in_the_future_ends_with_3_and_leaves_nothing(tmp_path: Path) -> None:
    date = f"{datetime.now(UTC) + timedelta(days=2):%Y-%m-%d}"
    output = tmp_path / "audit"
    settings = tmp_path / "settings.toml"
    settings.write_text(f'[audit]\ntopics = ["pay"]\noutput = "{output}"\n')
    ended = subprocess.run(
        [sys.executable, "-m", "spark_audit", "run", "--config", str(settings), "--date", date],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert ended.returncode == ExitCode.NOT_AVAILABLE
    assert ended.stderr == f"error: {date} is in the future: there is nothing to judge yet\n"
    assert ended.stdout == ""
    assert not output.exists()
