"""The audit of what the demo did, by the command that a user would run."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from feedback.clock import epoch_ms
from feedback.errors import ExitCode
from onceward.servers.errors import StackError
from onceward.servers.keeper import Keeper, ServerCommand
from spark_audit.say.summary import summary_line
from tests.demo.scene import Scene

AUDIT_WITHIN_S = 300.0


@dataclass(frozen=True, slots=True)
class Audited:
    """What the audit says.

    Args:
        line: for a person.
        report: the folder with its page; None where it came to no verdict, or to a bad one.
    """

    line: str
    report: Path | None

    @property
    def exit_code(self) -> ExitCode:
        """What the demo ends with, where the bank's account is as it should be."""
        return ExitCode.NOT_AVAILABLE if self.report is None else ExitCode.FINE


def audit(keeper: Keeper, scene: Scene, *, began_ms: int) -> Audited:
    """Judge everything since `began_ms` (epoch ms) and return what was found."""
    since = datetime.fromtimestamp(began_ms / 1000, UTC)
    # It may be around midnight: the window is the demo's time, whatever the day.
    until = datetime.fromtimestamp(epoch_ms() / 1000, UTC) + timedelta(seconds=1)
    command = scene.audit_command(
        date=f"{since:%Y-%m-%d}", since=since.isoformat(), until=until.isoformat()
    )
    report = scene.audit_folder / "reports" / f"date={since:%Y-%m-%d}"
    return audited_by(keeper, command, report, within_s=AUDIT_WITHIN_S)


def audited_by(keeper: Keeper, command: ServerCommand, report: Path, *, within_s: float) -> Audited:
    """Run an audit and return its findings.

    Args:
        report: the folder that it writes its page into.
        within_s: how long it may take; on a slow machine it is stopped then, and says nothing.
    """
    try:
        keeper.run(command, timeout_s=within_s)
    except StackError as error:
        if isinstance(error.__cause__, TimeoutError):
            why = f"it was stopped after {within_s:g} s: this machine is too slow for it now"
            return Audited(f"NO VERDICT, {why}", None)
        return Audited(f"does not say that all is well:\n{error.log}", None)
    return Audited(summary_line(json.loads((report / "summary.json").read_text())), report)
