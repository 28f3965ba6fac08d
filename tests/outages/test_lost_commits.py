"""The database loses commits that it had acknowledged: nothing that ended runs again."""

import os
import signal
import uuid
from collections.abc import Iterator

import psycopg
import pytest

from feedback.status import State
from tests.consumer.foreign import identity
from tests.consumer.gate import Gate
from tests.consumer.stage import Stage
from tests.eventually import eventually
from tests.outages.conftest import MakeStage
from tests.spark_audit.judge.effects import effect_runs
from tests.stack.postgres import dsn
from tests.stack.replication import Replicated, replicated

pytestmark = pytest.mark.waits

WITHIN_S = 60.0


@pytest.fixture
def pair() -> Iterator[Replicated]:
    """Yield a primary with an asynchronous standby, which has an empty database of the test's."""
    with replicated() as made:
        with psycopg.connect(dsn(made.primary.address), autocommit=True) as admin:
            admin.execute("CREATE DATABASE journal")
        made.catch_up()
        yield made


@pytest.fixture
def stage(make_stage: MakeStage, pair: Replicated) -> Stage:
    """Return a stage whose journal is on whichever of the two takes writes."""
    url = pair.url("journal")
    return make_stage(
        handlers=("marked", "flaky", "ordered", "keyed"), journal_url=url, journal={"timeout_s": 3}
    )


def send(stage: Stage, name: str, gate: Gate, attempt: int = 1, *, handler: str = "marked") -> None:
    body = b'{"before": "gate", "gate": "%s"}' % gate.path.encode()
    key = b"card-1" if handler == "ordered" else None
    stage.produce(body, key=key, headers=identity(name, attempt), handler=handler)


def effects(stage: Stage, name: str) -> int:
    return len(stage.runs(name, at="effect"))


def await_state(stage: Stage, name: str, state: State) -> None:
    def is_so() -> bool:
        row = stage.row(name)
        return row is not None and row["state"] == state

    eventually(is_so, timeout_s=WITHIN_S, what=f"{name} {state}")


def test_a_worker_never_runs_again_what_it_has_run_whatever_the_database_has_forgotten(
    stage: Stage, pair: Replicated
) -> None:
    opened, closed = stage.gate(), stage.gate()
    opened.open()
    worker = stage.start(worker={"processes": 2})
    pair.catch_up()
    pair.lag()
    ended, running = f"ended-{uuid.uuid4().hex}", f"running-{uuid.uuid4().hex}"
    send(stage, ended, opened)
    send(stage, running, closed)
    assert stage.final(ended).state is State.SUCCEEDED
    stage.seen(running, State.RUNNING)
    pair.fail_over()
    assert stage.row(ended) is None
    for name, gate in ((ended, opened), (running, closed)):
        send(stage, name, gate, attempt=2)
    await_state(stage, ended, State.SUCCEEDED)
    eventually(lambda: stage.row(running) is not None, timeout_s=WITHIN_S)
    closed.open()
    await_state(stage, running, State.SUCCEEDED)
    assert (effects(stage, ended), effects(stage, running)) == (1, 1)
    assert len(stage.runs(running, at=None)) == len(stage.runs(ended, at=None))
    worker.told("run.restored")
    assert worker.stop() == 0


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_whose_end_is_lost_is_settled_by_its_worker_or_by_what_its_client_was_told(
    stage: Stage, pair: Replicated, end: signal.Signals
) -> None:
    gate = stage.gate()
    first = stage.start()
    name = f"claimed-{uuid.uuid4().hex}"
    send(stage, name, gate)
    stage.seen(name, State.RUNNING)
    pair.catch_up()
    pair.lag()
    gate.open()
    assert stage.final(name).state is State.SUCCEEDED
    store = stage.client.store
    if end is signal.SIGTERM:
        # Its worker's memory alone says how it ended.
        store.redis.delete(f"{store.prefix}request:{{{name}}}")
    pair.fail_over()
    first.send(end)
    first.wait()
    stage.start()
    await_state(stage, name, State.SUCCEEDED)
    assert effects(stage, name) == 1


def test_a_run_that_followed_another_by_its_key_is_accused_of_nothing(
    stage: Stage, pair: Replicated
) -> None:
    worker = stage.start()
    name = f"keyed-{uuid.uuid4().hex}"
    stage.produce(b'{"hangs": 1}', headers=identity(name, 1), handler="keyed")
    stage.seen(name, State.RUNNING)
    (first,) = eventually(lambda: stage.runs(name), timeout_s=WITHIN_S)
    pair.catch_up()
    pair.lag()
    os.kill(first["pid"], signal.SIGKILL)
    assert stage.final(name).state is State.SUCCEEDED
    pair.fail_over()
    # Its worker finds what is lost, and writes it again.
    await_state(stage, name, State.SUCCEEDED)
    row, (kept,) = stage.row(name), stage.history(name)
    assert row is not None
    assert (row["generation"], kept["generation"], len(stage.runs(name))) == (2, 1, 2)
    assert (kept["outcome"], kept["allowed_by"]) == ("WORKER_DIED", "GRANTED")
    assert effect_runs(dict(row), [dict(kept)]) == 1
    assert worker.stop() == 0


@pytest.mark.parametrize("is_told", [True, False])
def test_a_reopening_that_is_lost_is_not_granted_again_and_its_client_is_told_an_end(
    stage: Stage, pair: Replicated, is_told: bool
) -> None:
    gate = stage.gate()
    first = stage.start()
    name = f"reopened-{uuid.uuid4().hex}"
    send(stage, name, gate, handler="flaky")
    failed = stage.final(name)
    assert (failed.state, failed.resend) == (State.FAILED, True)
    pair.catch_up()
    pair.lag()
    if is_told:
        gate.open()
    send(stage, name, gate, attempt=2, handler="flaky")
    stage.seen(name, State.SUCCEEDED if is_told else State.RUNNING)
    first.send(signal.SIGKILL)
    first.wait()
    pair.fail_over()
    gate.open()
    stage.start()
    send(stage, name, gate, attempt=3, handler="flaky")
    await_state(stage, name, State.SUCCEEDED if is_told else State.IN_DOUBT)
    row, status = stage.row(name), stage.final(name)
    assert row is not None
    assert (row["generation"], status.generation, status.state) == (2, 2, row["state"])
    assert len(stage.runs(name)) == 2
    assert is_told or status.code == "END_LOST"


@pytest.mark.parametrize("is_told", [True, False])
def test_a_request_whose_row_is_forgotten_neither_runs_again_nor_keeps_its_key(
    stage: Stage, pair: Replicated, is_told: bool
) -> None:
    gate = stage.gate()
    first = stage.start()
    pair.catch_up()
    pair.lag()
    name, behind = f"forgotten-{uuid.uuid4().hex}", f"behind-{uuid.uuid4().hex}"
    if is_told:
        gate.open()
    send(stage, name, gate, handler="ordered")
    stage.seen(name, State.SUCCEEDED if is_told else State.RUNNING)
    first.send(signal.SIGKILL)
    first.wait()
    pair.fail_over()
    assert stage.row(name) is None
    gate.open()
    stage.start()
    send(stage, name, gate, attempt=2, handler="ordered")
    send(stage, behind, gate, handler="ordered")
    await_state(stage, behind, State.SUCCEEDED)
    await_state(stage, name, State.SUCCEEDED if is_told else State.IN_DOUBT)
    assert (len(stage.runs(name)), len(stage.runs(behind))) == (1, 1)
