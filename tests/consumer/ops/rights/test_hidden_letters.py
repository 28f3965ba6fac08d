"""An operator who may not see the dead letter topics is told so, and never that there are none."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka.admin import ResourceType

from feedback.errors import ExitCode
from feedback.rights.needed import Role
from feedback.status import State
from producer_client import Client
from tests.consumer.ops.rights.stage import RightsStage, rights_stage
from tests.stack.secured_stack import Secured

pytestmark = pytest.mark.usefixtures("no_given_servers")

READERS = (
    ("list",),
    ("list", "--json"),
    ("export", "-"),
    ("redrive", "--all", "--dry-run"),
    ("discard", "--all", "--because", "a test", "--dry-run"),
)


@pytest.mark.timeout(300)
def test_letters_that_are_hidden_are_not_counted_as_none(secured: Secured, tmp_path: Path) -> None:
    with rights_stage(secured, tmp_path) as stage:
        stage.migrate()
        for role in (Role.WORKER, Role.CLIENT, Role.OPERATOR):
            stage.grant(role)
        stage.worker().told("worker.started")
        with Client(stage.settings(Role.CLIENT)) as client:
            name = client.send(b"rejected").request_id
            assert client.wait(name, timeout_s=60).state is State.FAILED
        stage.secured.kafka.take_away(Role.OPERATOR, ResourceType.TOPIC)
        require_refused(stage)
        shown = stage.command("consumer.dlq", "show", name, role=Role.OPERATOR)
        assert "lacks a right" in shown.stdout, shown


def require_refused(stage: RightsStage) -> None:
    hidden = f"{stage.topics['pay']}.{stage.group}.dlq"
    for words in READERS:
        ran = stage.command("consumer.dlq", *words, role=Role.OPERATOR)
        assert (ran.returncode, ran.stdout) == (ExitCode.NOT_AVAILABLE, ""), (words, ran)
        assert hidden in ran.stderr, ran.stderr
    named = stage.command("consumer.dlq", "list", "--dlq", hidden, role=Role.OPERATOR)
    assert named.returncode == ExitCode.NOT_AVAILABLE
    assert "lacks a right" in named.stderr, named.stderr
    assert "no topic" not in named.stderr
