"""A worker stands still past its session and its lease, and wakes up in a world that went on."""

import pytest

from feedback.status import State
from tests.eventually import eventually
from tests.outages.conftest import MakeStage
from tests.outages.scene import NOTICED_WITHIN_S, scene_on
from tests.paused import paused

pytestmark = pytest.mark.waits


def test_a_worker_that_wakes_up_runs_nothing_twice_and_goes_on(
    make_stage: MakeStage, postgres_url: str
) -> None:
    stage = make_stage(journal_url=postgres_url, partitions=4)
    gate = stage.gate()
    with scene_on(stage) as scene:
        held = stage.client.send({"gate": gate.path}, topic=stage.topics["work"]).request_id
        eventually(lambda: stage.runs(held), timeout_s=NOTICED_WITHIN_S)
        peer = stage.start()
        eventually(lambda: len(stage.members()) == 2, timeout_s=NOTICED_WITHIN_S)
        with paused(scene.worker.pid):
            # Its child is done, its lease ends, its session ends: the peer goes on alone.
            gate.open()
            stage.seen(held, State.IN_DOUBT)
            eventually(lambda: len(stage.members()) == 1, timeout_s=NOTICED_WITHIN_S)
            scene.resumes()
        # Nobody has run it since: the late outcome is true, and ends the doubt.
        stage.seen(held, State.SUCCEEDED)
        eventually(lambda: sorted(stage.members().values()) == [2, 2], timeout_s=NOTICED_WITHIN_S)
        peer.stop()
        scene.resumes()
    account = scene.end()
    # What was in its other slot when it stopped may have been in doubt as well, and no more.
    assert set(account.states) <= {State.SUCCEEDED, State.IN_DOUBT}
    assert account.states.get(State.IN_DOUBT, 0) <= 1
    assert [run["request_id"] for run in stage.runs()].count(held) == 1
