"""A handler that was declared `delivery="at_least_once"` before: what waits there is not lost."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection

from consumer.features.waits.wait_record import wait_topic
from consumer.features.waits.waits import left_over
from feedback.errors import KafkaUnavailable
from feedback.status import State
from tests.consumer.features.waits.given_back import WORKER, give_back
from tests.consumer.features.waits.topics import read_all, unfinished
from tests.consumer.foreign import identity
from tests.consumer.stage import Stage
from tests.eventually import eventually
from tests.stack import Servers

HANDLERS = "tests.consumer.features.waits.wait_handlers"
MakeStage = Callable[..., Stage]


class Away:
    """Kafka, which is away for the first questions."""

    def __init__(self, times: int) -> None:
        self.times = times

    def visible(self, names: Collection[str]) -> list[str]:
        self.times -= 1
        if self.times >= 0:
            raise KafkaUnavailable("away")
        return [*names]


def test_what_is_left_over_is_asked_for_until_kafka_answers_or_the_worker_ends() -> None:
    stopping = threading.Event()
    assert left_over(Away(2), ["t.g.wait"], stopping=stopping, pause_s=0) == ["t.g.wait"]
    stopping.set()
    assert left_over(Away(2), ["t.g.wait"], stopping=stopping) == []


def test_what_an_orderly_end_gave_back_runs_where_it_is_at_most_once_now(
    make_stage: MakeStage, servers: Servers
) -> None:
    stage = make_stage(handlers=("parked",), worker={"handlers": [HANDLERS], **WORKER})
    ids = give_back(stage, servers)
    topics = json.dumps({"once": stage.topics["parked"]})
    second = stage.start_as({"TEST_TOPICS": topics})
    second.told("waits.left_over")
    assert {stage.final(name, timeout_s=30).state for name in ids} == {State.SUCCEEDED}
    assert sorted(one["request_id"] for one in stage.runs()) == ids
    eventually(lambda: unfinished(servers, stage, "parked") == set(), what="its ends")
    # What is read now has no wait record, and needs no tombstone.
    written = len(read_all(servers, wait_topic(stage.topics["parked"], stage.group)))
    stage.produce(b"{}", headers=identity("later"), handler="parked")
    assert stage.final("later").state is State.SUCCEEDED
    assert second.stop() == 0
    assert len(read_all(servers, wait_topic(stage.topics["parked"], stage.group))) == written
