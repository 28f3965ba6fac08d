"""Redis away and back, empty, while requests run: processing goes on and statuses come right."""

from collections.abc import Iterator

import pytest

from feedback.status import State
from onceward.servers.redis import Redis
from tests.consumer.conftest import MakeStage
from tests.consumer.stage import Stage
from tests.eventually import eventually
from tests.stack import Servers
from tests.stack.restartable import Restartable, restartable

pytestmark = pytest.mark.waits


@pytest.fixture
def server() -> Iterator[Restartable]:
    """Yield a Redis that the test may kill; it comes back empty."""
    with restartable(Redis) as running:
        yield running


def finished(stage: Stage, request_ids: list[str]) -> bool:
    rows = [stage.row(request_id) for request_id in request_ids]
    return all(row is not None and row["state"] == "SUCCEEDED" for row in rows)


def test_processing_goes_on_without_redis_and_statuses_are_right_afterwards(
    make_stage: MakeStage, servers: Servers, server: Restartable
) -> None:
    stage = make_stage(servers=Servers(kafka=servers.kafka, redis=server.address))
    worker = stage.start()
    gate = stage.gate()
    client, topic = stage.client, stage.topics["work"]
    before = client.send({"answer": "before"}, topic=topic)
    assert before.wait(30).result == "before"
    running = client.send({"gate": gate.path, "answer": "running"}, topic=topic)
    eventually(lambda: stage.runs(running.request_id))

    server.kill()
    during = [stage.produce(b'{"answer":"during"}').coordinates_id for _ in range(20)]
    gate.open()
    eventually(lambda: finished(stage, [*during, running.request_id]), timeout_s=30)
    worker.told("redis.away")
    assert worker.is_alive

    server.start()
    ended = list(client.wait_many([*during, running.request_id], timeout_s=60))
    assert {(one.state, one.result) for one in ended} == {
        (State.SUCCEEDED, "during"),
        (State.SUCCEEDED, "running"),
    }
    # This one was told before Redis forgot it: whoever waits gets it from the journal.
    assert before.wait(60).result == "before"
    after = client.send({"answer": "after"}, topic=topic)
    assert after.wait(60).result == "after"
    ran = sorted(run["request_id"] for run in stage.runs())
    everything = [before.request_id, running.request_id, *during, after.request_id]
    assert ran == sorted(everything)
    eventually(
        lambda: all((row := stage.row(one)) and row["published_at"] for one in everything),
    )
    assert worker.stop() == 0


def test_statuses_that_a_stopped_worker_could_not_tell_are_told_by_the_next(
    make_stage: MakeStage, servers: Servers, server: Restartable
) -> None:
    stage = make_stage(servers=Servers(kafka=servers.kafka, redis=server.address))
    first = stage.start()
    stage.client.send({}, topic=stage.topics["work"]).wait(30)
    server.kill()
    sent = [stage.produce(b'{"answer":1}').coordinates_id for _ in range(5)]
    eventually(lambda: finished(stage, sent), timeout_s=30)
    assert first.stop() == 0
    server.start()
    stage.start()
    ended = list(stage.client.wait_many(sent, timeout_s=30))
    assert {one.result for one in ended} == {1}
    assert {len(stage.runs(one)) for one in sent} == {1}
