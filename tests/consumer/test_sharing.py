"""Two workers of a group, and one whose handler is slow: nothing runs twice, nobody is evicted."""

import json
from collections.abc import Iterator

import pytest

from feedback.status import State
from tests.consumer.conftest import MakeStage
from tests.consumer.foreign import identity
from tests.consumer.stage import Stage, open_stage
from tests.eventually import eventually
from tests.stack import Servers

pytestmark = pytest.mark.waits


@pytest.fixture(scope="module")
def pair(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Yield a stage with two workers that have two of the four partitions each."""
    folder = tmp_path_factory.mktemp("pair")
    url = f"sqlite:///{folder}/journal.db"
    with open_stage(servers=servers, journal_url=url, folder=folder, partitions=4) as stage:
        for _ in range(2):
            stage.start()
        eventually(lambda: sorted(stage.members().values()) == [2, 2], timeout_s=30)
        yield stage


def test_two_workers_of_a_group_share_the_work_and_run_each_request_once(pair: Stage) -> None:
    sent = [pair.produce(b'{"answer":1}', partition=n % 4) for n in range(120)]
    ids = {one.coordinates_id for one in sent}
    ended = list(pair.client.wait_many(ids, timeout_s=60))
    assert {status.state for status in ended} == {State.SUCCEEDED}
    runs = [run for run in pair.runs() if run["request_id"] in ids]
    assert sorted(run["request_id"] for run in runs) == sorted(ids)
    assert len({run["parent"] for run in runs}) == 2


def test_a_resend_that_reaches_another_worker_is_answered_with_the_first_ones_run(
    pair: Stage,
) -> None:
    gate = pair.gate()
    body = json.dumps({"gate": gate.path}, separators=(",", ":"))
    handle = pair.client.send(body, topic=pair.topics["work"])
    running = pair.seen(handle.request_id, State.RUNNING)
    for partition in range(4):
        again = identity(handle.request_id, attempt=2 + partition)
        pair.produce(body.encode(), headers=again, partition=partition)
    eventually(lambda: handle.status().attempt == 5)
    assert (handle.status().state, handle.status().worker) == (State.RUNNING, running.worker)
    gate.open()
    assert handle.wait(60).state is State.SUCCEEDED
    assert len(pair.runs(handle.request_id)) == 1


def test_a_slow_handler_and_a_full_buffer_cost_no_membership_and_no_second_run(
    make_stage: MakeStage,
) -> None:
    stage = make_stage(
        kafka={"max_poll_interval_s": 10, "session_timeout_s": 10},
        worker={"processes": 1, "slots_per_process": 1, "buffer_limit": 1},
    )
    worker = stage.start()
    slow = stage.produce(b'{"takes_s":13}', partition=0)
    eventually(lambda: stage.runs(slow.coordinates_id), timeout_s=30)
    before = stage.members()
    short = [stage.produce(b"{}", partition=n % 2) for n in range(8)]
    ids = [one.coordinates_id for one in (slow, *short)]
    ended = list(stage.client.wait_many(ids, timeout_s=60))
    assert {(status.state, status.attempt) for status in ended} == {(State.SUCCEEDED, 1)}
    assert sorted(run["request_id"] for run in stage.runs()) == sorted(ids)
    assert stage.members() == before
    assert worker.stop() == 0
    assert worker.events("records.dropped") + worker.events("commit.failed") == []
    assert all(stage.history(one) == [] for one in ids)
