"""A topic of which as many wait for their keys as may: it is read no further, all others are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from feedback.status import State
from producer_client import Submission
from tests.consumer.loop.order.sending import MODULE, WORKER, Sender, in_order, started, steps
from tests.consumer.running import RunningWorker, command
from tests.consumer.stage import HANDLERS, Stage, open_stage
from tests.rounds import fastest_s
from tests.stack import Servers

LIMIT, BUFFER, MANY, OTHERS = 50, 16, 200, 400


@pytest.fixture
def stage(servers: Servers, journal_url: str, tmp_path: Path) -> Iterator[Stage]:
    """Yield a stage with an ordered topic and one without an order, of one partition each."""
    with open_stage(
        servers=servers,
        journal_url=journal_url,
        folder=tmp_path,
        handlers=("booked", "work"),
        partitions=1,
        worker=WORKER
        | {"handlers": [MODULE, HANDLERS], "order_held_limit": LIMIT, "buffer_limit": BUFFER},
    ) as made:
        yield made


def _others_take_s(stage: Stage) -> float:
    """Return how long requests of the other topic take, from the first send to the last end."""
    began_s = time.monotonic()
    topic = stage.topics["work"]
    for sent in list(stage.client.send_many(Submission({}, topic=topic) for _ in range(OTHERS))):
        assert stage.final(sent.request_id).state is State.SUCCEEDED
    return time.monotonic() - began_s


def _limit_s(alone_s: float) -> float:
    """Return how long they may take beside a key that blocks: it takes its turns as well."""
    return 2 * alone_s + 0.5


def _as_fast(stage: Stage, held_s: float, alone_s: float) -> bool:
    """Whether they were as fast as alone: before, or now if the machine has become slower."""
    return held_s <= _limit_s(alone_s) or held_s <= _limit_s(_others_take_s(stage))


def _fill(stage: Stage, worker: RunningWorker, sender: Sender) -> None:
    """Let more wait for a key than may, in the worker and in Kafka."""
    for _ in range(MANY):
        sender.send("a")
    told = worker.told("order.full")
    assert (told["topic"], told["limit"]) == (stage.topics["booked"], LIMIT)
    # The first one runs; beyond the limit, what the buffer had by then.
    assert stage.committed(stage.topics["booked"], 0) <= 1 + LIMIT + BUFFER


def test_a_key_that_blocks_holds_up_no_other_topic(stage: Stage) -> None:
    worker = stage.start()
    alone_s = min(_others_take_s(stage) for _ in range(2))
    gate, sender = stage.gate(), Sender(stage)
    sender.send("a", gate=gate.path)
    started(stage, "a", 1)
    _fill(stage, worker, sender)
    members = stage.members()
    held_s = fastest_s(lambda: _others_take_s(stage), enough_s=_limit_s(alone_s))
    assert stage.members() == members
    assert steps(stage)["a"] == [("start", 1)]
    gate.open()
    sender.all_succeed()
    assert steps(stage)["a"] == in_order(range(1, MANY + 2))
    assert _as_fast(stage, held_s, alone_s)
    assert worker.told("order.has_room")
    assert worker.stop() == 0


def test_a_full_topic_that_is_paused_holds_up_no_other_topic(stage: Stage) -> None:
    worker = stage.start()
    alone_s = min(_others_take_s(stage) for _ in range(2))
    gate, sender = stage.gate(), Sender(stage)
    sender.send("a", gate=gate.path)
    started(stage, "a", 1)
    _fill(stage, worker, sender)
    config, topic = str(stage.config()), stage.topics["booked"]
    assert command("pause", topic, "--because", "r", "--config", config).returncode == 0
    worker.told("topic.paused")
    gate.open()
    assert stage.final(sender.sent[0]).state is State.SUCCEEDED
    held_s = fastest_s(lambda: _others_take_s(stage), enough_s=_limit_s(alone_s))
    assert steps(stage)["a"] == in_order([1])
    assert command("resume", topic, "--config", config).returncode == 0
    sender.all_succeed()
    assert steps(stage)["a"] == in_order(range(1, MANY + 2))
    assert _as_fast(stage, held_s, alone_s)
