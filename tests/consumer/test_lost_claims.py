"""A database that forgets a claim, on the road: its living worker ends the request."""

from __future__ import annotations

from feedback.status import State
from tests.consumer.conftest import MakeStage
from tests.eventually import eventually


def test_a_run_that_is_refused_its_effect_since_its_claim_is_gone_runs_again(
    make_stage: MakeStage,
) -> None:
    # Far from the look that would write the claim again before the effect is asked for.
    stage = make_stage(handlers=("marked",), journal={"lease_s": 60})
    stage.start()
    gate = stage.gate()
    body = {"before": "gate", "gate": gate.path}
    handle = stage.client.send(body, topic=stage.topics["marked"])
    eventually(lambda: stage.runs(handle.request_id), timeout_s=30)
    stage.seen(handle.request_id, State.RUNNING)
    stage.execute(f"DELETE FROM onceward_request WHERE request_id = '{handle.request_id}'")
    gate.open()
    ended = handle.wait(30)
    assert (ended.state, ended.generation) == (State.SUCCEEDED, 2)
    assert len(stage.runs(handle.request_id, at="effect")) == 1
    assert [run["outcome"] for run in stage.history(handle.request_id)] == ["CLAIM_LOST"]
