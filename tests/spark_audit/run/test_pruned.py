"""What is offered for sending: nothing that may have run, whatever the journal has forgotten."""

from __future__ import annotations

import json

import pytest

from consumer.journal import Journal
from feedback.errors import ExitCode
from feedback.records.envelope import payload_sha256
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.status import State
from feedback.statuses import StatusWrite
from spark_audit.output.paths import Places
from tests.spark_audit.run.scene import IDS, LOST, Scene
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


@pytest.mark.parametrize("journal_url", ["sqlite"], indirect=True)
def test_a_lost_request_that_a_client_was_told_of_is_not_offered(scene: Scene) -> None:
    settings = scene.settings()
    store = StatusStore(connect(settings.redis), settings.kafka.group, settings.redis)
    digest = payload_sha256(None, b"{}")
    store.write([StatusWrite(LOST, State.SUCCEEDED, 1, 1, digest)])
    store.close()
    outcome = scene.audit()
    assert outcome.summary["resend"]["begun"] == 1
    report = Places(scene.output, DATE).report
    assert (report / "resend.jsonl").read_text() == ""
    assert "they may have run" in (report / "report.html").read_text()


@pytest.mark.parametrize("journal_url", ["sqlite"], indirect=True)
def test_a_lost_request_that_nobody_began_is_offered(scene: Scene) -> None:
    scene.audit()
    lines = (Places(scene.output, DATE).report / "resend.jsonl").read_text().splitlines()
    assert [json.loads(line)["request_id"] for line in lines] == [LOST]
