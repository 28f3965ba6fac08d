"""An operator who may not see the dead letter topics is told so, and never that there are none."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from kafka import TopicPartition
from kafka.admin import ACLOperation, KafkaAdminClient, ResourceType

from consumer.dlq.redrive.batch_sender import opened_statuses
from consumer.dlq.redrive.endings import print_ending
from consumer.dlq.redrive.progress import CHOSEN, SENT
from consumer.dlq.redrive.redrive_session import RedriveEnding, redrives_of
from consumer.journal.redrive.redrive_row import DONE
from feedback.errors import ExitCode
from feedback.rights.needed import Role
from feedback.status import State
from producer_client import Client
from tests.consumer.ops.rights.stage import RightsStage, rights_stage
from tests.eventually import eventually
from tests.offsets import committed
from tests.stack.secured_stack import Secured

pytestmark = pytest.mark.usefixtures("no_given_servers")

READERS = (
    ("list",),
    ("list", "--json"),
    ("list", "--no-journal"),
    ("export", "-"),
    ("redrive", "--all", "--dry-run"),
    ("discard", "--all", "--because", "a test", "--dry-run"),
)


@pytest.mark.timeout(300)
def test_letters_that_are_hidden_are_not_counted_as_none(secured: Secured, tmp_path: Path) -> None:
    with rights_stage(secured, tmp_path) as stage:
        name = failed(stage)
        require_redis(stage, name)
        require_schema(stage)
        stage.secured.kafka.take_away(Role.OPERATOR, ResourceType.TOPIC)
        require_refused(stage)
        require_nothing_changed(stage, name)
        shown = stage.command("consumer.dlq", "show", name, role=Role.OPERATOR)
        assert "lacks a right" in shown.stdout, shown
        assert "Kafka is back" not in shown.stdout, shown


@pytest.mark.long
@pytest.mark.timeout(300)
def test_one_of_two_topics_of_letters_that_is_hidden_is_named(
    secured: Secured, tmp_path: Path
) -> None:
    """Without a journal too, which the group's committed offsets stand in for."""
    with rights_stage(secured, tmp_path) as stage:
        stage.make_beside()
        failed(stage)
        await_committed(stage, stage.topics["pay"])
        kafka, prefix = stage.secured.kafka, f"{stage.topics['pay']}.{stage.group}."
        for words in READERS:
            seen = stage.command("consumer.dlq", *words, role=Role.OPERATOR)
            assert seen.returncode == ExitCode.FINE, (words, seen)
        kafka.take_away(Role.OPERATOR, ResourceType.TOPIC, prefix)
        for words in READERS:
            ran = stage.command("consumer.dlq", *words, role=Role.OPERATOR)
            assert (ran.returncode, ran.stdout) == (ExitCode.NOT_AVAILABLE, ""), (words, ran)
            assert f"{prefix}dlq" in ran.stderr, ran.stderr
        kafka.take_away(Role.OPERATOR, ResourceType.GROUP, stage.group, ACLOperation.DESCRIBE)
        for words in READERS:
            ran = stage.command("consumer.dlq", *words, role=Role.OPERATOR)
            assert (ran.returncode, ran.stdout) == (ExitCode.NOT_AVAILABLE, ""), (words, ran)
            assert f"allow it the group {stage.group}, with Describe" in ran.stderr, ran.stderr


def failed(stage: RightsStage) -> str:
    """Return a request that a worker has failed; operator, worker and client have all rights."""
    stage.migrate()
    for role in (Role.WORKER, Role.CLIENT, Role.OPERATOR):
        stage.grant(role)
    stage.worker().told("worker.started")
    with Client(stage.settings(Role.CLIENT)) as client:
        name = client.send(b"rejected", key=b"k").request_id
        assert client.wait(name, timeout_s=60).state is State.FAILED
    return name


def await_committed(stage: RightsStage, topic: str) -> None:
    with KafkaAdminClient(bootstrap_servers=stage.secured.kafka.plain) as admin:
        place = TopicPartition(topic, 0)
        eventually(
            lambda: committed(admin, stage.group, place) >= 0, timeout_s=60, what="an offset"
        )


def require_redis(stage: RightsStage, name: str) -> None:
    """Return when no repair has begun without a right of Redis, whose grant is told."""
    stage.secured.redis.set_user(Role.OPERATOR, "-hset")
    ran = stage.command("consumer.dlq", "redrive", name, "--yes", role=Role.OPERATOR)
    assert (ran.returncode, ran.stdout) == (ExitCode.NOT_AVAILABLE, ""), ran
    (told,) = [one for one in ran.stderr.splitlines() if "; grant it: " in one]
    assert "user operator has no right to the command HSET" in told
    stage.run_redis(told.partition("; grant it: ")[2])
    settings = stage.settings(Role.OPERATOR)
    with closing(redrives_of(settings)) as work:
        assert work.latest(1) == []
        journal_id = work.journal_id()
    with opened_statuses(settings, journal_id) as statuses:
        stage.secured.redis.set_user(Role.OPERATOR, "-eval")  # in the middle of a redrive
        statuses.reopened([name], [None])
        assert "lacks a right" in statuses.refusal and "'eval' command" in statuses.refusal
    stage.secured.redis.set_user(Role.OPERATOR, "+eval")


def require_schema(stage: RightsStage) -> None:
    """Return when tables in a schema that is hidden are not said to be missing."""
    stage.run_sql(f"REVOKE USAGE ON SCHEMA public FROM {Role.OPERATOR}")
    ran = stage.command("consumer.dlq", "redrives", role=Role.OPERATOR)
    assert (ran.returncode, ran.stdout) == (ExitCode.NOT_AVAILABLE, ""), ran
    assert "GRANT USAGE ON SCHEMA public" in ran.stderr, ran
    stage.run_sql(f"GRANT USAGE ON SCHEMA public TO {Role.OPERATOR}")


def test_a_redrive_whose_statuses_redis_refused_says_why(
    capsys: pytest.CaptureFixture[str],
) -> None:
    refused = RedriveEnding(
        "r-1", DONE, {CHOSEN: 2, SENT: 2}, untold=2, refusal="lacks a right: allow it"
    )
    assert print_ending(refused, as_json=False) == ExitCode.NOT_AVAILABLE
    told = capsys.readouterr().out
    assert "lacks a right: allow it: 2 clients are told by the workers" in told
    assert "away" not in told


def require_nothing_changed(stage: RightsStage, name: str) -> None:
    """Return when who may not see the letters sends none back, and hears of the right."""
    for words in (
        ("redrive", name, "--yes"),
        ("redrive", "--all", "--yes"),
        ("redrive", "--unknown", "--all", "--yes"),
        ("discard", "--all", "--yes", "--because", "a test"),
        ("show", "nobody"),
    ):
        ran = stage.command("consumer.dlq", *words, role=Role.OPERATOR)
        assert ran.returncode == ExitCode.NOT_AVAILABLE, (words, ran)
        assert "lacks a right" in ran.stdout + ran.stderr, (words, ran)
    asked = "SELECT state, (SELECT count(*) FROM onceward_action) FROM onceward_request"
    assert stage.secured.postgres.run(asked, database=stage.database) == [(State.FAILED, 0)]


def require_refused(stage: RightsStage) -> None:
    own = f".{stage.group}.dlq"  # without the journal nobody knows of which topics
    hidden = stage.topics["pay"] + own
    for words in READERS:
        ran = stage.command("consumer.dlq", *words, role=Role.OPERATOR)
        assert (ran.returncode, ran.stdout) == (ExitCode.NOT_AVAILABLE, ""), (words, ran)
        assert (own if "--no-journal" in words else hidden) in ran.stderr, ran.stderr
    named = stage.command("consumer.dlq", "list", "--dlq", hidden, role=Role.OPERATOR)
    assert named.returncode == ExitCode.NOT_AVAILABLE
    assert "lacks a right" in named.stderr, named.stderr
    assert "no topic" not in named.stderr
