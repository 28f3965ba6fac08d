"""A front door has all that it needs by the rights of a client, and starts with no less."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from feedback.rights.needed import Role
from tests.consumer.ops.rights.stage import RightsStage, rights_stage
from tests.kit.program import StartedProgram
from tests.stack.secured_stack import Secured

pytestmark = pytest.mark.usefixtures("no_given_servers")


@pytest.fixture
def stage(secured: Secured, tmp_path: Path) -> Iterator[RightsStage]:
    """Yield a stage with tables, and the rights of a worker and a client."""
    with rights_stage(secured, tmp_path) as made:
        made.migrate()
        for role in (Role.WORKER, Role.CLIENT):
            made.grant(role)
        made.denied()
        yield made


def _door(stage: RightsStage, *topics: str) -> StartedProgram:
    http = {"topics": [stage.topics[one] for one in topics], "port": 0, "outbox": True}
    return stage.start(Role.CLIENT, "producer_client", "serve", http=http)


@pytest.mark.timeout(300)
def test_a_front_door_needs_the_rights_of_a_client_and_no_more(stage: RightsStage) -> None:
    stage.worker().told("worker.started")
    port = _door(stage, "pay").told("http.started")["port"]
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=90) as http:
        headers = {"Idempotency-Key": '"order-7"', "Prefer": "wait=60"}
        page = f"/v1/{stage.topics['pay']}"
        ended, repeated = (http.post(page, json="paid", headers=headers) for _ in "ab")
        assert (ended.status_code, ended.json()["state"]) == (200, "SUCCEEDED")
        assert repeated.headers["Idempotent-Replayed"] == "true"
        assert http.get(ended.headers["Location"]).json()["state"] == "SUCCEEDED"
        assert http.get(f"{ended.headers['Location']}/events").text.count("data: ") == 1
        assert http.get("/ready").status_code == 200
    assert stage.denied() == []


@pytest.mark.timeout(300)
def test_a_front_door_without_a_right_to_a_topic_says_so_at_its_start(stage: RightsStage) -> None:
    door = _door(stage, "pay", "outcomes")
    assert door.wait() == 3
    assert f"Write on topic {stage.topics['outcomes']}" in door.tail
