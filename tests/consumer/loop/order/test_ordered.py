"""Requests of a key one at a time and in order, on real servers, whatever happens to workers."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from feedback.clock import epoch_ms
from feedback.status import State
from tests.consumer.loop.order.sending import WORKER, Sender, in_order, started, steps
from tests.consumer.stage import Stage, open_stage
from tests.eventually import eventually
from tests.stack import Servers

pytestmark = pytest.mark.waits


@contextmanager
def _open(servers: Servers, journal_url: str, folder: Path) -> Iterator[Stage]:
    with open_stage(
        servers=servers,
        journal_url=journal_url,
        folder=folder,
        handlers=("booked",),
        worker=WORKER,
    ) as made:
        yield made


@pytest.fixture
def stage(servers: Servers, journal_url: str, tmp_path: Path) -> Iterator[Stage]:
    """Yield a stage whose handler keeps the order of its keys."""
    with _open(servers, journal_url, tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def shared_stage(
    servers: Servers, module_journal_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    """Yield such a stage whose worker runs, for tests that only send to it."""
    with _open(servers, module_journal_url, tmp_path_factory.mktemp("ordered")) as made:
        made.start()
        yield made


@pytest.fixture
def running(shared_stage: Stage) -> Iterator[Stage]:
    """Return that stage; nothing waits at a gate when the next test has it."""
    yield shared_stage
    shared_stage.open_gates()


def shared(stage: Stage) -> None:
    """Wait until two workers have a partition of the topic each."""
    eventually(lambda: [*stage.members().values()].count(1) == 2)


def _stands(stage: Stage, name: str) -> tuple[int, str] | None:
    row = stage.row(name)
    return None if row is None else (row["generation"], row["state"])


def test_two_hundred_requests_of_ten_keys_on_two_workers_keep_their_order(stage: Stage) -> None:
    dice = random.Random(7)
    workers = [stage.start(), stage.start()]
    shared(stage)
    sender = Sender(stage)
    keys = [f"key-{number}" for number in range(10)]
    for key in dice.sample(keys * 20, 200):
        sender.send(key, takes_s=dice.choice([0.0, 0.005, 0.03]))
    sender.all_succeed()
    noted = steps(stage)
    assert set(noted) == set(keys)
    for key in keys:
        assert noted[key] == in_order(range(1, 21)), key
    assert all(worker.stop() == 0 for worker in workers)


def test_a_request_that_fails_twice_holds_its_key_and_no_other(running: Stage) -> None:
    sender = Sender(running)
    head = sender.send("fails-a", fails=2)
    for _ in range(3):
        sender.send("fails-a")
    for _ in range(5):
        sender.send("fails-b")
    running.seen(head, State.RETRYING)
    sender.all_succeed()
    noted = steps(running)
    assert noted["fails-a"] == in_order([1, 1, 1, 2, 3, 4])
    assert noted["fails-b"] == in_order(range(1, 6))
    lines = running.runs(at=None)
    ended_b = max(at for at, one in enumerate(lines) if one["key"] == "fails-b")
    last_of_head = max(at for at, one in enumerate(lines) if one["request_id"] == head)
    assert ended_b < last_of_head, "the other key went on meanwhile"


def test_requests_without_a_key_wait_for_nobody(running: Stage) -> None:
    gate = running.gate()
    body = json.dumps({"number": 1, "gate": gate.path}).encode()
    sent = [running.produce(body, handler="booked", partition=0) for _ in range(3)]
    first = [one.coordinates_id for one in sent]
    eventually(lambda: all(len(running.runs(one, at="start")) == 1 for one in first))
    gate.open()
    for one in first:
        assert running.final(one).state is State.SUCCEEDED


def test_a_worker_that_joins_while_requests_run_overtakes_none(stage: Stage) -> None:
    """What waits here is read again by the partition's next owner, in its order."""
    first = stage.start(
        worker=WORKER | {"processes": 1, "slots_per_process": 1, "buffer_limit": 32}
    )
    gate = stage.gate()
    sender = Sender(stage)
    keys = [f"key-{number}" for number in range(6)]
    sender.send("head", gate=gate.path)
    started(stage, "head", 1)
    for key in keys:
        waiting = sender.send(key)
    stage.seen(waiting, State.ACCEPTED)
    stage.start()
    shared(stage)
    for _ in range(4):
        for key in keys:
            sender.send(key, takes_s=0.01)
    # Those of the partition that went are done while the first worker's only slot is taken.
    eventually(lambda: len(stage.runs(at="end")) >= 5)
    gate.open()
    sender.all_succeed()
    noted = steps(stage)
    for key in keys:
        assert noted[key] == in_order(range(1, 6)), key
    handed = first.events("partitions.handed_over")
    assert sum(one["read_again"] for one in handed) >= 1


def test_a_worker_that_is_stopped_hands_what_waits_to_the_next_one_in_order(stage: Stage) -> None:
    first = stage.start()
    sender = Sender(stage)
    sender.send("a", takes_s=1.0)
    for _ in range(5):
        sender.send("a")
    started(stage, "a", 1)
    assert first.stop() == 0
    sender.send("a")
    stage.start()
    sender.all_succeed()
    assert steps(stage)["a"] == in_order(range(1, 8))


def test_a_worker_that_is_killed_while_a_request_waits_for_its_run_leaves_the_key_held(
    stage: Stage,
) -> None:
    first = stage.start()
    sender = Sender(stage)
    head = sender.send("a", fails=2)
    sender.send("a")
    eventually(lambda: _stands(stage, head) == (2, "RETRYING"))
    # Until it is let go, however long the kill and the next worker take.
    _postpone(stage, head, 4_102_444_800_000)
    first.send(signal.SIGKILL)
    first.wait()
    later = [sender.send("a") for _ in range(3)]
    others = [sender.send(key) for key in "bcdefg"]
    peer = stage.start()
    for name in others:
        assert stage.final(name, timeout_s=40).state is State.SUCCEEDED
    assert all(stage.seen(name, State.ACCEPTED).worker == peer.worker_id for name in later)
    assert [number for _, number in steps(stage)["a"]] == [1, 1, 1, 1]
    assert [stage.row(name) for name in later] == [None] * 3
    _postpone(stage, head, 1)
    sender.all_succeed(resend=True)
    noted = steps(stage)["a"]
    assert noted[:6] == in_order([1, 1, 1])
    order = [number for at, number in noted if at == "start"]
    assert noted == in_order(order), "one at a time"
    # The second one was lost with its worker, and has the place of its resend.
    assert [number for number in order if number != 2] == [1, 1, 1, 3, 4, 5]
    assert order.count(2) == 1


def _postpone(stage: Stage, name: str, due_at: int) -> None:
    stage.execute(
        f"UPDATE onceward_request SET due_at = {due_at} "
        f"WHERE request_id = '{name}' AND state = 'RETRYING'"
    )


def test_at_the_limit_of_what_waits_the_worker_reads_no_further_and_loses_nothing(
    stage: Stage,
) -> None:
    gate = stage.gate()
    worker = stage.start(worker=WORKER | {"order_held_limit": 5, "buffer_limit": 4})
    sender = Sender(stage)
    sender.send("a", gate=gate.path)
    for _ in range(40):
        sender.send("a")
    told = worker.told("order.full")
    # Beyond the limit, what the buffer had by then.
    assert (told["limit"], 5 <= told["held"] < 5 + 4) == (5, True)
    for partition in (0, 1):
        topic = stage.topics["booked"]
        assert stage.committed(topic, partition) <= 1 + 5 + 4
    started(stage, "a", 1)
    assert len(stage.runs(at="start")) == 1
    gate.open()
    sender.all_succeed()
    assert steps(stage)["a"] == in_order(range(1, 42))
    assert worker.told("order.has_room")


def test_what_is_sent_again_while_it_waits_runs_once_and_in_its_place(running: Stage) -> None:
    gate = running.gate()
    sender = Sender(running)
    sender.send("again", gate=gate.path)
    second = sender.send("again")
    sender.send("again")
    started(running, "again", 1)
    running.seen(second, State.ACCEPTED)
    running.client.send(
        {"number": 2}, key="again", topic=running.topics["booked"], request_id=second
    )
    eventually(lambda: running.client.status(second).attempt == 2, timeout_s=30)
    gate.open()
    sender.all_succeed()
    assert steps(running)["again"] == in_order([1, 2, 3])


def test_what_waits_beyond_its_deadline_expires_and_the_next_one_runs(running: Stage) -> None:
    gate = running.gate()
    sender = Sender(running)
    sender.send("late", gate=gate.path)
    started(running, "late", 1)
    topic = running.topics["booked"]
    late = running.client.send({"number": 2}, key="late", topic=topic, deadline_s=0.5).request_id
    last = running.client.send({"number": 3}, key="late", topic=topic).request_id
    deadline_at = running.client.status(late).deadline_at
    assert deadline_at is not None
    eventually(lambda: epoch_ms() > deadline_at)
    gate.open()
    assert running.final(late).state is State.EXPIRED
    assert running.final(last).state is State.SUCCEEDED
    assert steps(running)["late"] == in_order([1, 3])
