"""Every role of the product runs with exactly the rights that `onceward-worker rights` names."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient

from feedback.clock import epoch_ms
from feedback.errors import ExitCode
from feedback.redis.store import StatusStore
from feedback.rights.needed import Role
from feedback.status import State
from producer_client import Client
from tests.consumer.ops.rights.stage import RightsStage, rights_stage
from tests.eventually import eventually
from tests.producer_client.records import records_of
from tests.stack.secured_stack import Secured

pytestmark = pytest.mark.usefixtures("no_given_servers")


@pytest.fixture
def stage(secured: Secured, tmp_path: Path) -> Iterator[RightsStage]:
    """Yield a stage with tables."""
    with rights_stage(secured, tmp_path) as made:
        made.migrate()
        yield made


def granted(stage: RightsStage, *roles: Role) -> None:
    for role in roles:
        stage.grant(role)
    stage.denied()


def printed(ran: subprocess.CompletedProcess[str]) -> str:
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_worker_and_client_work_with_exactly_their_rights(stage: RightsStage) -> None:
    granted(stage, Role.WORKER, Role.CLIENT)
    stage.worker().told("worker.started")
    with Client(stage.settings(Role.CLIENT)) as client:
        ends = {}
        for value in (b"paid", b"again", b"rejected"):
            sent = client.send(value)
            ends[value] = client.wait(sent.request_id, timeout_s=60).state
        kept = client.send(b"", topic=stage.topics["keep"])
        ends[b"kept"] = client.wait(kept.request_id, timeout_s=60).state
    assert ends == {
        b"paid": State.SUCCEEDED,
        b"again": State.SUCCEEDED,
        b"rejected": State.FAILED,
        b"kept": State.SUCCEEDED,
    }
    assert stage.denied() == []


@pytest.mark.long
def test_the_resender_sends_again_what_no_worker_has_read(stage: RightsStage) -> None:
    granted(stage, Role.CLIENT, Role.RESENDER)
    settings = stage.settings(Role.CLIENT)
    with Client(settings) as client:
        request_id = client.send(b"paid").request_id
        store = StatusStore(stage.secured.redis.admin, stage.group, settings.redis)
        stage.secured.redis.admin.zadd(store.deadlines_key, {request_id: epoch_ms() - 1000})
        stage.start(Role.RESENDER, "producer_client", "resend")
        eventually(lambda: client.status(request_id).attempt == 2, what="a resend")
    assert stage.denied() == []


@pytest.mark.long
def test_the_relay_sends_the_rows_of_an_outbox(stage: RightsStage) -> None:
    granted(stage, Role.CLIENT, Role.RELAY)
    relay = stage.start(Role.RELAY, "producer_client", "relay")
    settings = stage.settings(Role.CLIENT)
    with Client(settings) as client, stage.connected(settings.outbox.url) as connection:
        sent = client.send(b"paid", connection=connection)
        connection.commit()
        eventually(lambda: client.status(sent.request_id).state is State.PENDING, what="a send")
    assert relay.is_alive
    assert stage.denied() == []


@pytest.mark.long
def test_migrations_need_to_make_tables_alone(secured: Secured, tmp_path: Path) -> None:
    with rights_stage(secured, tmp_path) as stage:
        stage.grant(Role.MIGRATE)
        printed(stage.command("consumer", "migrate", role=Role.MIGRATE))
        printed(stage.command("producer_client", "outbox", "migrate", role=Role.MIGRATE))
        stage.run_sql(f'DROP OWNED BY "{Role.MIGRATE}" CASCADE')


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_registry_expires_what_a_dead_worker_left(stage: RightsStage) -> None:
    granted(stage, Role.WORKER, Role.CLIENT, Role.REGISTRY)
    gate = stage.folder / "gate"
    gate.touch()
    worker = stage.worker()
    worker.told("worker.started")
    with Client(stage.settings(Role.CLIENT)) as client:
        # By then the worker reads: the deadline is for the request alone.
        client.send("no-gate", topic=stage.topics["keep"]).wait(60)
        sent = client.send(str(gate), topic=stage.topics["keep"], deadline_s=8)
        eventually(lambda: client.status(sent.request_id).state is State.RUNNING, what="a run")
    worker.kill()
    registry = stage.start(Role.REGISTRY, "consumer.dlq", "expire")
    letters = f"{stage.topics['keep']}.{stage.group}.dlq"

    def has_letter() -> bool:
        with KafkaAdminClient(bootstrap_servers=stage.secured.kafka.plain) as admin:
            is_there = letters in admin.list_topics()
        assert registry.is_alive, registry.tail
        return is_there and len(records_of(stage.secured.kafka.plain, letters)) == 1

    eventually(has_letter, interval_s=1.0, what="a letter")
    assert stage.denied() == []


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_person_repairs_with_the_rights_of_the_operator(stage: RightsStage) -> None:
    granted(stage, Role.WORKER, Role.CLIENT, Role.OPERATOR)

    def run(module: str, *words: str) -> str:
        return printed(stage.command(module, *words, role=Role.OPERATOR))

    stage.worker().told("worker.started")
    pay = stage.topics["pay"]
    with Client(stage.settings(Role.CLIENT)) as client:
        ids = [client.send(b"rejected").request_id for _ in range(2)]
        for one in ids:
            assert client.wait(one, timeout_s=60).state is State.FAILED

        def listed() -> int:
            return len(run("consumer.dlq", "list", "--json").splitlines()) - 1

        eventually(lambda: listed() == 2, timeout_s=60, interval_s=0.5, what="two letters")
        run("consumer.dlq", "show", ids[0], "--value")
        run("consumer.dlq", "export", str(stage.folder / f"{uuid.uuid4().hex}.jsonl"))
        run("consumer.dlq", "redrive", ids[0], "--yes")
        run("consumer.dlq", "redrives")
        eventually(lambda: client.status(ids[0]).attempt == 2, what="a redrive")
        run("consumer.dlq", "discard", ids[1], "--yes", "--because", "a test")
        run("consumer", "pause", pay, "--because", "a test")
        run("consumer", "paused")
        run("consumer", "resume", pay)
        run("consumer", "workers")
        run("consumer", "prune", "--older-than-days", "0")
    topics = stage.command("consumer", "topics", "--json", "--role", "operator", role=Role.OPERATOR)
    said = [json.loads(line)["fault"] for line in topics.stdout.splitlines()]
    # No letter has made the last topic yet.
    assert sorted(map(str, said)) == ["None"] * 6 + ["missing"]
    # The worker's right to write beside the topics of requests is not this user's.
    as_worker = stage.command("consumer", "topics", role=Role.OPERATOR)
    assert as_worker.returncode == ExitCode.BAD_ANSWER
    assert "may not WRITE it" in as_worker.stdout
    assert stage.denied() == []


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_auditor_judges_a_day_with_exactly_its_rights(stage: RightsStage) -> None:
    granted(stage, Role.WORKER, Role.CLIENT, Role.AUDITOR)
    stage.worker().told("worker.started")
    with Client(stage.settings(Role.CLIENT)) as client:
        for value in (b"paid", b"rejected"):
            client.wait(client.send(value).request_id, timeout_s=60)
    now = datetime.now(tz=UTC)
    until = (now + timedelta(seconds=1)).isoformat()
    since = (now - timedelta(hours=1)).isoformat()
    span = ("--since", since, "--until", until)
    audit = stage.start(Role.AUDITOR, "spark_audit", "run", "--json", *span)
    assert audit.ended(within_s=500) in (ExitCode.FINE, ExitCode.BAD_ANSWER), audit.tail
    assert stage.denied() == []
