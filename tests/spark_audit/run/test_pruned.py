"""What is offered for sending: nothing that may have run, whatever the journal has forgotten."""

from __future__ import annotations

import pytest

from consumer.journal import Journal
from feedback.errors import ExitCode
from spark_audit.output.paths import Places
from tests.spark_audit.run.scene import IDS, Scene
from tests.spark_audit.stage.samples import BEGIN_MS, DATE, DAY_MS

pytestmark = pytest.mark.timeout(300)

DEADLINE_MS = BEGIN_MS + DAY_MS // 2 + 3_600_000


def test_a_day_that_was_pruned_loses_nothing_and_offers_nothing_for_sending(scene: Scene) -> None:
    scene.journal.change(f"UPDATE onceward_request SET deadline_at = {DEADLINE_MS}")
    journal = Journal(scene.journal.url, worker_id="host-1-x", group=scene.journal.group)
    assert journal.prune(0, 1_000).requests == len(IDS) - 1
    journal.close()
    outcome = scene.audit()
    assert outcome.exit_code is ExitCode.NOT_AVAILABLE
    found = outcome.summary["counts"]["findings"]
    # The lost one lies among them, and nobody can tell it from them.
    assert {name: count for name, count in found.items() if count} == {"forgotten": len(IDS)}
    assert any("pruned" in one for one in outcome.summary["unseen"])
    assert not (Places(scene.output, DATE).report / "resend.jsonl").exists()
