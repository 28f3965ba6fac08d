"""The audit of what the demo did, by the command that a user would run."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from feedback.clock import epoch_ms
from feedback.errors import NotAvailable
from onceward.servers.errors import StackError
from onceward.servers.keeper import Keeper
from spark_audit.say.summary import one_line
from tests.demo.scene import Scene

AUDIT_WITHIN_S = 300.0


@dataclass(frozen=True, slots=True)
class Audited:
    """What the audit says.

    Args:
        line: for a person.
        report: the folder with its page.
    """

    line: str
    report: Path


def audit(keeper: Keeper, scene: Scene, *, began_ms: int) -> Audited:
    """Judge everything since `began_ms` (epoch ms) and return what was found.

    Raises:
        NotAvailable: it came to no verdict, or to a bad one.
    """
    since = datetime.fromtimestamp(began_ms / 1000, UTC)
    # It may be around midnight: the window is the demo's time, whatever the day.
    until = datetime.fromtimestamp(epoch_ms() / 1000, UTC) + timedelta(seconds=1)
    command = scene.audit_command(
        date=f"{since:%Y-%m-%d}", since=since.isoformat(), until=until.isoformat()
    )
    try:
        keeper.run(command, timeout_s=AUDIT_WITHIN_S)
    except StackError as error:
        raise NotAvailable(f"the audit does not say that all is well:\n{error.log}") from error
    report = scene.audit_folder / "reports" / f"date={since:%Y-%m-%d}"
    return Audited(one_line(json.loads((report / "summary.json").read_text())), report)
