"""The audit of a day with redrives: what was repaired is no fault of anybody's."""

import pytest

from feedback.errors import ExitCode
from feedback.status import State
from tests.consumer.dlq.redrive.conftest import MakeScene
from tests.spark_audit.days.conftest import Audit

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


def test_a_day_with_redrives_is_a_good_one(make_scene: MakeScene, audit: Audit) -> None:
    scene = make_scene("repairable", "doubtful")
    stage = scene.stage
    worker = stage.start()
    repaired, replaced, discarded = scene.fail({"amount": 1}, {"amount": "bad"}, {"amount": 3})
    doubt = stage.client.send({"amount": 4}, topic=stage.topics["doubtful"]).request_id
    assert stage.final(doubt).state is State.IN_DOUBT
    scene.said("resolve", doubt, "--failed", "--reason", "the bank has no such charge")
    scene.box.closed([doubt])
    scene.repair()
    scene.said("redrive", repaired, doubt)
    scene.said("redrive", replaced, "--set", "amount=2")
    scene.said("discard", discarded, "--because", "a test")
    new = scene.actions(replaced)[0]["reason"].removeprefix("replaced by ")
    for request_id in (repaired, doubt, new):
        assert stage.final(request_id).state is State.SUCCEEDED
    assert worker.stop() == 0
    judged = audit(stage)
    assert (judged.exit_code, judged.requests) == (ExitCode.FINE, 5)
    assert judged.found == {"resent": sorted([repaired, doubt])}
