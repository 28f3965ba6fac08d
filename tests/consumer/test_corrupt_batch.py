"""What a worker costs that librdkafka ends over the bytes of a corrupt batch."""

from __future__ import annotations

import signal
from dataclasses import replace

from feedback.status import State
from tests.consumer.conftest import MakeStage
from tests.consumer.running import command
from tests.eventually import eventually
from tests.feedback.kafka.engines.corrupt_log import HOW, LogFile
from tests.stack import Servers
from tests.stack.restartable import Restartable

LIMIT_S = 60.0
ONE_SLOT = {"processes": 1, "slots_per_process": 1}
# Where librdkafka 2.16 meets nulls behind a wrong checksum it ends the process.
NULLS = bytes(1000)


def test_a_worker_that_librdkafka_ends_costs_what_a_killed_one_costs(
    make_stage: MakeStage, servers: Servers, mortal_broker: Restartable
) -> None:
    stage = make_stage(
        servers=replace(servers, kafka=mortal_broker.address),
        handlers=("marked", "work"),
        partitions=1,
        worker=ONE_SLOT,
    )
    worker = stage.start(kafka={"client": "confluent"})
    marked, work = stage.topics["marked"], stage.topics["work"]
    ended = stage.client.send({"answer": 7}, topic=marked)
    assert ended.wait(LIMIT_S).state is State.SUCCEEDED
    runs = stage.client.send({"gate": stage.gate().path}, topic=marked)
    eventually(lambda: stage.runs(runs.request_id, at="effect"), timeout_s=LIMIT_S)
    waits = stage.client.send({"answer": 8}, topic=marked)
    stage.seen(waits.request_id, State.ACCEPTED)

    config = str(stage.config())
    assert command("pause", work, "--because", "a test", "--config", config).returncode == 0
    worker.told("topic.paused")
    corrupt, behind = (stage.produce(value, handler="work") for value in (NULLS, b"{}"))
    with LogFile(mortal_broker, work).corrupt(corrupt.offset, HOW["bytes"]):
        assert command("resume", work, "--config", config).returncode == 0
        assert worker.ended(within_s=LIMIT_S) == -signal.SIGABRT
        assert "rd_slice_narrow_copy" in worker.stderr

        other = stage.start(kafka={"client": "kafka-python"})
        found = stage.final(runs.request_id)
        assert (found.state, found.generation) == (State.IN_DOUBT, 1)
        assert waits.wait(LIMIT_S).result == 8
        other.told("partition.failed")
        assert {one["request_id"] for one in stage.runs()} == {
            one.request_id for one in (ended, runs, waits)
        }
    unread = [one.coordinates_id for one in (corrupt, behind)]
    for request_id in unread:
        assert stage.final(request_id).state is State.SUCCEEDED
    ids = [*(one.request_id for one in (ended, runs, waits)), *unread]
    assert sorted(one["request_id"] for one in stage.runs()) == sorted(ids)
