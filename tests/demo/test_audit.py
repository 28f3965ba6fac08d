"""An audit that comes to no verdict is told as that, and never as a good one."""

import sys
from pathlib import Path

import pytest

from feedback.errors import ExitCode
from onceward.servers.keeper import Keeper, ServerCommand
from tests.demo.audit import Audited, audited_by


def judged(folder: Path, program: str, *, within_s: float) -> Audited:
    command = ServerCommand((sys.executable, "-c", program), folder, folder / "audit.log")
    with Keeper() as keeper:
        return audited_by(keeper, command, folder, within_s=within_s)


def test_an_audit_that_takes_too_long_has_no_verdict_and_says_why(tmp_path: Path) -> None:
    found = judged(tmp_path, "import time; print('GOOD', flush=True); time.sleep(60)", within_s=0.5)
    assert found.line.startswith("NO VERDICT, it was stopped after 0.5 s: this machine is too slow")
    assert "GOOD" not in found.line
    assert (found.report, found.exit_code) == (None, ExitCode.NOT_AVAILABLE)


@pytest.mark.parametrize("code", [1, 3])
def test_an_audit_that_fails_is_shown_with_the_end_of_its_log(tmp_path: Path, code: int) -> None:
    found = judged(tmp_path, f"print('2 lost'); raise SystemExit({code})", within_s=30)
    assert "does not say that all is well" in found.line and "2 lost" in found.line
    assert found.exit_code is ExitCode.NOT_AVAILABLE
