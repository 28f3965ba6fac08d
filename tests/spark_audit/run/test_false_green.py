"""Days that are not good although nothing of them is lost and nothing ran twice."""

from __future__ import annotations

import pytest

from feedback.errors import ExitCode
from feedback.settings.sections import AuditSection
from spark_audit.run.audit import AuditResult
from spark_audit.say.summary import summary_line
from spark_audit.stage.window import Window
from tests.spark_audit.run.scene import IDS, Scene
from tests.spark_audit.stage.samples import DAY_MS

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.parametrize("journal_url", ["sqlite"], indirect=True),
]
DELIVERED = 3


def _found(outcome: AuditResult) -> dict[str, int]:
    found: dict[str, int] = outcome.summary["counts"]["findings"]
    return {name: count for name, count in found.items() if count}


def test_requests_that_were_never_delivered_are_overdue_and_fail(scene: Scene) -> None:
    scene.commit(scene.topic, DELIVERED)
    for request_id in IDS[DELIVERED:]:
        scene.journal.change(f"DELETE FROM onceward_request WHERE request_id = '{request_id}'")
    outcome = scene.audit(fail_on=AuditSection().fail_on)
    assert outcome.exit_code is ExitCode.BAD_ANSWER
    assert _found(outcome) == {"overdue": len(IDS) - DELIVERED}
    assert [one["rule"] for one in outcome.summary["failed_on"]] == ["overdue>0"]
    assert f"<h1>At risk: {len(IDS) - DELIVERED} overdue" in outcome.page.read_text()


# What is said of no requests is proved in `say`.
@pytest.mark.long
def test_a_day_without_requests_is_good_and_says_that_it_is_empty(scene: Scene) -> None:
    since_ms = 1_577_836_800_000
    outcome = scene.audit(window=Window("2020-01-01", since_ms, since_ms + DAY_MS))
    assert (outcome.exit_code, _found(outcome)) == (ExitCode.FINE, {})
    assert "GOOD, no requests: " in summary_line(outcome.summary)
    assert "<h1>No requests" in outcome.page.read_text()
