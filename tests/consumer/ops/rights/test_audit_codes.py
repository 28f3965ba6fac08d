"""Each right alone that is taken from the auditor: its name and the exit code of the audit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from feedback.errors import ExitCode
from feedback.rights.needed import Role
from producer_client import Client
from tests.consumer.ops.rights.stage import RightsStage
from tests.consumer.ops.rights.test_checked import Atom
from tests.consumer.ops.rights.test_exit_codes import own_atoms, stage, without

__all__ = ["stage"]
pytestmark = [pytest.mark.usefixtures("no_given_servers"), pytest.mark.long]

UNCOMPARED = "statuses.not_compared"


@pytest.mark.timeout(1800)
def test_an_audit_names_the_right_that_it_lacks(stage: RightsStage) -> None:
    for role in (Role.WORKER, Role.CLIENT):
        stage.grant(role)
    worker = stage.worker()
    worker.told("worker.started")
    with Client(stage.settings(Role.CLIENT)) as client:
        for value, of in ((b"paid", "pay"), (b"rejected", "pay"), (b"", "keep")):
            name = client.send(value, topic=stage.topics[of]).request_id
            assert client.wait(name, timeout_s=60).state.is_final
    worker.stop()
    for number, atom in enumerate(own_atoms(stage, Role.AUDITOR)):
        with without(stage, Role.AUDITOR, atom) as is_needed:
            if is_needed:
                require_named(atom, *audited(stage, folder=f"audit-{number}"))
    code, said = audited(stage, folder="audit")
    assert code == ExitCode.FINE, said
    assert UNCOMPARED not in said


def audited(stage: RightsStage, *, folder: str) -> tuple[int | None, str]:
    """Return the exit code of an audit of the last hour, and all that it has said."""
    now = datetime.now(tz=UTC)
    since, until = now - timedelta(hours=1), now + timedelta(seconds=1)
    span = ("--since", since.isoformat(), "--until", until.isoformat())
    output = {"audit": {"output": str(stage.folder / folder)}}
    one = stage.start(Role.AUDITOR, "spark_audit", "run", "--json", *span, **output)
    return one.ended(within_s=300), one.log.read_text()


def require_named(atom: Atom, code: int | None, said: str) -> None:
    """Return when the right is named; without those of Redis all but the statuses is judged."""
    where = (atom.name, code, said)
    if atom.name.endswith("EXISTS") and code == ExitCode.FINE:
        assert UNCOMPARED not in said, where  # asked only where a request runs
        return
    assert code == ExitCode.NOT_AVAILABLE, where
    if "onceward:" in atom.name or "the command" in atom.name:
        assert UNCOMPARED in said and "lacks a right" in said, where
    else:
        assert atom.name.split()[-1].removesuffix("*") in said, where
