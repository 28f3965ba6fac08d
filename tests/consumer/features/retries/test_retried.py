"""Retries on real servers, from the failure to the last run (docs: Kafka records)."""

from __future__ import annotations

import itertools
import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient
from sqlalchemy.engine import RowMapping

from feedback.clock import epoch_ms
from feedback.records.retry_group import retry_group
from feedback.status import State
from tests.consumer.foreign import identity
from tests.consumer.stage import TWO_CHILDREN, Stage, open_stage
from tests.eventually import eventually
from tests.kit.databases import migrated
from tests.paused import paused_without_lock
from tests.stack import Servers

pytestmark = pytest.mark.waits

MODULE = "tests.consumer.features.retries.retried_handlers"


@contextmanager
def _open(servers: Servers, journal_url: str, folder: Path, *handlers: str) -> Iterator[Stage]:
    with open_stage(
        servers=servers,
        journal_url=journal_url,
        folder=folder,
        handlers=handlers,
        worker={"handlers": [MODULE], **TWO_CHILDREN},
    ) as made:
        yield made


@pytest.fixture(scope="module")
def running(
    servers: Servers, module_journal_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    """Yield a stage whose handlers have retries and whose worker runs: tests only send to it."""
    folder = tmp_path_factory.mktemp("retried")
    with _open(servers, module_journal_url, folder, "tiers", "later", "seats") as made:
        made.execute("CREATE TABLE booking (request_id VARCHAR(128))")
        made.start()
        yield made


@pytest.fixture
def stage(servers: Servers, journal_url: str, tmp_path: Path) -> Iterator[Stage]:
    """Yield a stage whose handlers have retries, for workers to which something happens."""
    with _open(servers, journal_url, tmp_path, "tiers", "later", "gated") as made:
        yield made


def _send(stage: Stage, handler: str, **body: Any) -> str:
    return str(stage.client.send(body, topic=stage.topics[handler]).request_id)


def _row(stage: Stage, request_id: str) -> RowMapping:
    row = stage.row(request_id)
    assert row is not None
    return row


def _pauses_ms(stage: Stage, request_id: str) -> list[int]:
    """Return how long after each failed run the next one began, by the journal's clock."""
    runs = [*stage.history(request_id), _row(stage, request_id)]
    return [after["claimed_at"] - before["ended_at"] for before, after in itertools.pairwise(runs)]


def test_what_always_fails_runs_through_all_tiers_and_no_further(running: Stage) -> None:
    names = [f"tiers-{at}" for at in range(6)]
    # Requests of both partitions: the tries of one are not those of another.
    for at, name in enumerate(names):
        running.produce(b'{"fails": 99}', headers=identity(name), handler="tiers", partition=at % 2)
    for name in names:
        status = running.final(name, timeout_s=40)
        assert (status.state, status.code, status.resend) == (State.FAILED, "HANDLER_ERROR", False)
        assert [run["generation"] for run in running.runs(name)] == [1, 2, 3, 4, 5]
        row = _row(running, name)
        assert (row["generation"], row["state"], row["attempt"]) == (5, "FAILED", 1)
        assert [run["outcome"] for run in running.history(name)] == ["RETRYING"] * 4
        pauses = _pauses_ms(running, name)
        assert all(
            pause >= wanted for pause, wanted in zip(pauses, [300, 300, 900, 900], strict=True)
        ), pauses


def test_what_fails_for_a_while_succeeds_by_itself(running: Stage) -> None:
    by_class, by_code = _send(running, "tiers", fails=2), _send(running, "tiers", busy=1)
    later = running.final(by_class)
    assert (later.state, later.result) == (State.SUCCEEDED, {"generation": 3})
    assert (later.code, later.due_at) == (None, None)
    assert running.final(by_code).result == {"generation": 2}
    assert [run["outcome"] for run in running.history(by_code)] == ["RETRYING"]
    row = _row(running, by_class)
    assert (row["code"], row["due_at"], row["resend"]) == (None, None, 0)


def test_a_place_that_kafka_cannot_have_is_no_place_and_its_neighbours_run_too(
    running: Stage,
) -> None:
    (worker,) = running.workers
    places = [("ORIGINAL_PARTITION", b"%d" % 2**31), ("ORIGINAL_OFFSET", b"%d" % 2**63)]
    names = [f"placed-{at}" for at in range(4)]
    for at, name in enumerate(names):
        headers = [*identity(name), *(places if at % 2 else [])]
        running.produce(b'{"fails": 1}', headers=headers, handler="tiers", partition=0)
    for name in names:
        assert running.final(name, timeout_s=40).result == {"generation": 2}
        assert _row(running, name)["partition"] == 0
    assert worker.events("retry.malformed") == []
    # Their wake-ups have run them: none had to be run without one.
    assert not any(
        event["again"] and event["request_id"] in names for event in worker.events("retry.overdue")
    )


def test_a_client_sees_when_it_runs_again_and_a_resend_meanwhile_runs_nothing(
    running: Stage,
) -> None:
    # A machine that stands still until it is due shows nothing of what comes before.
    name = eventually(lambda: _resent_before_it_is_due(running), timeout_s=100)
    assert name is not None
    assert running.final(name).result == {"generation": 2}
    assert len(running.runs(name)) == 2
    assert _pauses_ms(running, name)[0] >= 6000


def _resent_before_it_is_due(running: Stage) -> str | None:
    """Return a request that was sent again while it waited; None where that took too long."""
    body = json.dumps({"fails": 1}, separators=(",", ":")).encode()
    name = running.produce(body, handler="later").coordinates_id
    waiting = running.seen(name, State.RETRYING)
    row = _row(running, name)
    running.produce(body, handler="later", headers=identity(name, attempt=2))
    eventually(lambda: running.client.status(name).attempt == 2, timeout_s=30)
    answered, runs = running.client.status(name), running.runs(name)
    if row["state"] != "RETRYING" or epoch_ms() >= row["due_at"]:
        return None
    assert (waiting.code, waiting.due_at) == ("HANDLER_ERROR", row["due_at"])
    assert row["due_at"] - row["finished_at"] == 6000
    assert (answered.state, answered.due_at) == (State.RETRYING, row["due_at"])
    assert len(runs) == 1
    return name


def test_what_a_transactional_handler_wrote_before_it_failed_is_gone(running: Stage) -> None:
    name = _send(running, "seats", fails=2)
    assert running.final(name).result == {"generation": 3}
    found = running.execute(f"SELECT count(*) FROM booking WHERE request_id = '{name}'")
    assert found[0][0] == 1


def test_a_worker_that_dies_between_the_row_and_the_record_leaves_it_to_a_peer(
    stage: Stage,
) -> None:
    worker = stage.start_as({"TEST_DIES_BEFORE_RECORD": "1"})
    worker.told("worker.started")
    name = _send(stage, "tiers", fails=1)
    assert worker.wait(30) == -signal.SIGKILL
    assert _row(stage, name)["state"] == "RETRYING"
    peer = stage.start()
    assert stage.final(name, timeout_s=40).result == {"generation": 2}
    assert [run["generation"] for run in stage.runs(name)] == [1, 2]
    peer.told("retry.overdue")
    assert {event["request_id"] for event in peer.events("retry.overdue")} == {name}


def test_a_worker_that_is_killed_while_a_tier_waits_leaves_it_to_a_peer(stage: Stage) -> None:
    first = stage.start()
    name = _send(stage, "later", fails=1)
    stage.seen(name, State.RETRYING)
    # Before the peer is there, which may take as long as the delay.
    first.send(signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    peer = stage.start()
    assert stage.final(name, timeout_s=40).result == {"generation": 2}
    assert [run["parent"] for run in stage.runs(name)] == [first.pid, peer.pid]
    assert _pauses_ms(stage, name)[0] >= 6000


def test_a_failure_that_comes_after_its_run_was_put_in_doubt_ends_the_doubt(stage: Stage) -> None:
    """Its worker stood still, and a peer could not know how it would end."""
    gate = stage.gate()
    first = stage.start()
    body = {"fails": 1, "gate": gate.path}
    name = _send(stage, "gated", **body)
    stage.seen(name, State.RUNNING)
    peer = stage.start()
    with paused_without_lock(first.pid, stage.journal_url):
        stage.seen(name, State.IN_DOUBT)
        gate.open()
        eventually(lambda: stage.runs(name), timeout_s=30)
    failed = stage.seen(name, State.FAILED)
    assert (failed.code, failed.resend, failed.generation) == ("HANDLER_ERROR", True, 1)
    assert [run["outcome"] for run in stage.history(name)] == ["IN_DOUBT"]
    # Nothing happened, as its handler says: a resend may run it again, and nothing else does.
    stage.client.send(body, topic=stage.topics["gated"], request_id=name)
    stage.seen(name, State.SUCCEEDED)
    assert stage.client.status(name).result == {"generation": 2}
    assert [run["generation"] for run in stage.runs(name)] == [1, 2]
    assert peer.stop() == first.stop() == 0


def test_a_request_that_waits_beyond_its_deadline_expires(stage: Stage) -> None:
    worker = stage.start()
    # By then the worker reads, and the producer is there: the deadline is for the request alone.
    stage.final(stage.produce(b"{}", handler="tiers").coordinates_id)
    name = f"late-{time.time_ns()}"
    # A next run is planned before it alone: so much longer than its delay may the first take.
    deadline_at = int(time.time() * 1000) + 14_000
    stage.produce(b'{"fails":1}', handler="later", headers=identity(name, deadline_at=deadline_at))
    stage.seen(name, State.RETRYING)
    worker.send(signal.SIGKILL)
    worker.wait()
    eventually(lambda: time.time() * 1000 > deadline_at)
    stage.start()
    status = stage.final(name, timeout_s=40)
    assert (status.state, len(stage.runs(name))) == (State.EXPIRED, 1)


def test_retries_belong_to_their_group(stage: Stage, servers: Servers, tmp_path: Path) -> None:
    other_url = f"sqlite:///{tmp_path}/other.db"
    migrated(other_url)
    mine = stage.start()
    other = stage.launch(
        stage.config(kafka={"group": f"{stage.group}-other"}, journal={"url": other_url})
    )
    other.told("worker.started")
    sent = stage.produce(b'{"fails":2}', handler="tiers")
    name = sent.coordinates_id

    def runs_of(pid: int) -> list[int]:
        return [run["generation"] for run in stage.runs(name) if run["parent"] == pid]

    for worker in (mine, other):
        eventually(lambda: len(runs_of(worker.pid)) >= 3, timeout_s=30)  # noqa: B023
    assert stage.final(name).result == {"generation": 3}
    assert [runs_of(worker.pid) for worker in (mine, other)] == [[1, 2, 3]] * 2
    with KafkaAdminClient(bootstrap_servers=servers.kafka) as admin:
        names = [one for one in admin.list_topics() if one.startswith(stage.topics["tiers"])]
    tiers = [
        f"{stage.topics['tiers']}.{group}.retry.{delay}"
        for group in (stage.group, f"{stage.group}-other")
        for delay in ("300ms", "900ms")
    ]
    assert set(tiers) <= set(names)


def test_topics_that_must_exist_end_a_worker_that_has_none(stage: Stage) -> None:
    worker = stage.launch_with(worker={"create_topics": False})
    assert worker.wait(60) == 3
    assert f".{stage.group}.retry." in worker.stderr
    assert "does not exist: create it" in worker.stderr


def test_what_is_committed_of_the_retry_topics_stands_with_a_group_of_their_own(
    running: Stage,
) -> None:
    name = _send(running, "tiers", fails=2)
    assert running.final(name).state is State.SUCCEEDED
    partition = _row(running, name)["partition"]
    topic = f"{running.topics['tiers']}.{running.group}.retry.300ms"
    of = retry_group(running.group)
    end = running.end(topic, partition)
    assert end >= 2
    eventually(lambda: running.committed(topic, partition, of=of) == end, timeout_s=30)
    assert running.committed(topic, partition) == 0
