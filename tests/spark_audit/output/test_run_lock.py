"""One audit at a time in an output folder, whichever days they are of."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from feedback.errors import ExitCode, NotAvailable
from spark_audit.output.run_lock import alone
from tests.spark_audit.command import ROOT, run_audit_command

HOLDER = """
import sys
from pathlib import Path
from spark_audit.output.run_lock import alone
with alone(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def _holder(output: Path) -> subprocess.Popen[str]:
    """Return another process once it has the lock; it ends with its input."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(output)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_a_second_audit_of_the_folder_is_refused_and_may_run_after_the_first(
    tmp_path: Path,
) -> None:
    with alone(tmp_path / "audit"):
        with pytest.raises(NotAvailable, match=r"another audit writes to .*/audit: wait"):
            alone(tmp_path / "audit").__enter__()
        with alone(tmp_path / "other"):
            pass
    with alone(tmp_path / "audit"):
        pass


def test_the_lock_of_an_audit_that_was_killed_is_free(tmp_path: Path) -> None:
    holder = _holder(tmp_path)
    with pytest.raises(NotAvailable):
        alone(tmp_path).__enter__()
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    with alone(tmp_path):
        assert holder.returncode == -signal.SIGKILL


def test_a_folder_that_cannot_be_made_ends_with_3(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotAvailable, match="file/audit cannot be written: Not a directory"):
        alone(tmp_path / "file" / "audit").__enter__()


@pytest.mark.parametrize("date", ["2026-11-20", "2026-11-19"])
def test_the_command_ends_with_3_and_one_sentence_whichever_day_it_is_asked_for(
    tmp_path: Path, date: str
) -> None:
    output = tmp_path / "audit"
    settings = tmp_path / "settings.toml"
    settings.write_text(f'[audit]\ntopics = ["pay"]\noutput = "{output}"\n')
    holder = _holder(output)
    ended = run_audit_command(settings, "--date", date)
    holder.communicate("")
    assert ended.returncode == ExitCode.NOT_AVAILABLE
    assert ended.stderr.startswith(f"error: another audit writes to {output}: wait until it ends\n")
    assert ended.stdout == ""
    assert [one.name for one in output.iterdir()] == [".lock"]
