"""Every role of the product runs with exactly the rights that `onceward-worker rights` names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from consumer.ops.rights.needed import Role
from feedback.status import State
from producer_client import Client
from tests.consumer.ops.rights.stage import RightsStage, rights_stage
from tests.stack.secured_stack import Secured

pytestmark = pytest.mark.usefixtures("no_given_servers")


@pytest.fixture
def stage(secured: Secured, tmp_path: Path) -> Iterator[RightsStage]:
    """Yield a stage with tables."""
    with rights_stage(secured, tmp_path) as made:
        made.migrate()
        yield made


def test_worker_and_client_work_with_exactly_their_rights(stage: RightsStage) -> None:
    for role in (Role.WORKER, Role.CLIENT):
        stage.grant(role)
    stage.denied()
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
