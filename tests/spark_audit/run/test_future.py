"""A day that has not begun: told before anything is started."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from feedback.errors import ExitCode
from tests.spark_audit.command import run_audit_command


def test_a_date_in_the_future_ends_with_3_and_leaves_nothing(tmp_path: Path) -> None:
    date = f"{datetime.now(UTC) + timedelta(days=2):%Y-%m-%d}"
    output = tmp_path / "audit"
    settings = tmp_path / "settings.toml"
    settings.write_text(f'[audit]\ntopics = ["pay"]\noutput = "{output}"\n')
    ended = run_audit_command(settings, "--date", date)
    assert ended.returncode == ExitCode.NOT_AVAILABLE
    assert ended.stderr.startswith(
        f"error: {date} is in the future: there is nothing to judge yet\n"
    )
    assert ended.stdout == ""
    assert not output.exists()
