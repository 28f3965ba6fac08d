"""The resender beside real workers: a killed one's buffer, and what is past its deadline."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from feedback.clock import monotonic_s
from feedback.settings.settings import load
from feedback.status import FINAL, State
from tests.consumer.stage import Stage, open_stage
from tests.eventually import eventually
from tests.producer_client.resenders import running
from tests.stack import Servers
from tests.standstill import standing_still

pytestmark = pytest.mark.waits

MakeStage = Callable[..., Stage]
FINAL_S = 60.0


@pytest.fixture
def make_stage(servers: Servers, sqlite_url: str, tmp_path: Path) -> Iterator[MakeStage]:
    """Return a factory of one stage."""
    with ExitStack() as stages:

        def make(**facts: Any) -> Stage:
            return stages.enter_context(
                open_stage(servers=servers, journal_url=sqlite_url, folder=tmp_path, **facts)
            )

        yield make


def test_what_a_killed_worker_had_in_its_buffer_is_run_by_another_and_nothing_twice(
    make_stage: MakeStage,
) -> None:
    # Less than half full in the end: a worker reads on when half of its buffer is free.
    roomy = {"buffer_limit": 20}
    stage = make_stage(client={"resend_after_s": 300}, worker=roomy, partitions=1)
    gate = stage.gate()
    first = stage.start()
    topic = stage.topics["work"]
    body = {"gate": gate.path, "answer": 1}
    handles = [stage.client.send(body, topic=topic) for _ in range(8)]
    ids = [one.request_id for one in handles]
    eventually(lambda: len(stage.runs()) == 2, timeout_s=30)
    eventually(lambda: _states(stage, ids).count(State.ACCEPTED) == 6, timeout_s=30)
    with running(load(stage.config())) as resender:
        first.kill()
        with standing_still() as stood:
            killed_s = monotonic_s()
            sent = resender.sends(6)
            took_s = monotonic_s() - killed_s
        # heartbeat_ttl_s is 2 here: within that and 3 s is promised, more on a slow machine.
        assert took_s < 15 + stood.total_s
        assert {one.why for one in sent} == {"lost"}
        stage.start()
        gate.open()
        eventually(lambda: set(_states(stage, ids)) <= FINAL, timeout_s=FINAL_S)
    states = _states(stage, ids)
    assert states.count(State.SUCCEEDED) == 6
    # What was running when it was killed may have had its effect.
    assert states.count(State.IN_DOUBT) == 2
    assert sorted(run["request_id"] for run in stage.runs()) == sorted(ids)


def test_a_request_past_its_deadline_is_sent_until_a_worker_has_closed_it(
    make_stage: MakeStage,
) -> None:
    stage = make_stage(client={"resend_after_s": 1}, partitions=1)
    handle = stage.client.send({"answer": 1}, topic=stage.topics["work"], deadline_s=0.2)
    with running(load(stage.config())) as resender:
        resender.sends(2)
        assert handle.status().state is State.PENDING
        stage.start()
        assert stage.final(handle.request_id, timeout_s=FINAL_S).state is State.EXPIRED
    assert stage.runs() == []


def _states(stage: Stage, request_ids: list[str]) -> list[State]:
    return [one.state for one in stage.client.store.read_many(request_ids)]
