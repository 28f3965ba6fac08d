"""The clock of one worker is five minutes off, ahead or behind; the journal's is right."""

import time
from datetime import datetime

import pytest

from feedback.status import State
from tests.consumer.running import RunningWorker
from tests.consumer.stage import Stage
from tests.eventually import eventually
from tests.outages.conftest import MakeStage
from tests.outages.scene import CLIENT, scene_on
from tests.stack.clock import clock_off_by

pytestmark = pytest.mark.waits

OFF_S = 300
DEADLINE_S = 120
LIMIT_S = 60.0


def test_workers_whose_clocks_are_wrong_expire_sweep_and_repeat_nothing(
    make_stage: MakeStage, postgres_url: str
) -> None:
    client = CLIENT | {"deadline_s": DEADLINE_S}
    stage = make_stage(journal_url=postgres_url, partitions=4, client=client)
    with scene_on(stage) as scene:
        wrong = [start_with_clock(stage, off_s) for off_s in (OFF_S, -OFF_S)]
        everybody = [1, 1, 2]
        eventually(lambda: sorted(stage.members().values()) == everybody, timeout_s=LIMIT_S)
        scene.load.await_sent(60)
        assert scene.worker.events("claim.swept") == []
        # From here on those with the wrong clocks are alone.
        assert scene.worker.stop() == 0
        scene.load.await_sent(60)
        scene.resumes()
    account = scene.load.account()
    assert account.states == {State.SUCCEEDED: account.sent}
    assert account.ran_twice == ()
    assert [one.events("claim.swept") for one in wrong] == [[], []]
    parents = {run["parent"] for run in stage.runs()}
    assert {one.pid for one in wrong} <= parents


def start_with_clock(stage: Stage, off_s: int) -> RunningWorker:
    """Start a worker whose clock is off, and see that it is."""
    worker = stage.start_as(clock_off_by(off_s))
    said = datetime.fromisoformat(worker.told("worker.started")["time"])
    assert said.timestamp() - time.time() == pytest.approx(off_s, abs=OFF_S / 2)
    return worker
