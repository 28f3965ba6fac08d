"""`onceward-worker workers` beside a worker that runs a request, and after its death."""

from __future__ import annotations

import json
from typing import Any

from tests.consumer.conftest import MakeStage
from tests.consumer.running import command
from tests.consumer.stage import Stage
from tests.eventually import eventually


def _listed(stage: Stage) -> list[dict[str, Any]]:
    ran = command("workers", "--json", "--config", str(stage.config()))
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_a_worker_is_listed_with_its_load_and_after_its_death_with_its_claims(
    make_stage: MakeStage,
) -> None:
    stage = make_stage()
    assert _listed(stage) == []
    worker = stage.start()
    gate = stage.gate()
    stage.produce(b'{"gate": "%s"}' % gate.path.encode(), key=b"card 4711")

    def busy() -> dict[str, Any] | None:
        (found,) = _listed(stage)
        is_busy = found["slots_busy"] == 1 and found["oldest_s"] is not None
        # One that stands still for longer than its lease lives when it goes on.
        return found if is_busy and found["state"] == "lives" else None

    found = eventually(busy, timeout_s=30)
    assert found is not None
    assert (found["worker_id"], found["state"]) == (worker.worker_id, "lives")
    assert worker.worker_id.startswith(found["host"])
    assert found["lease_left_s"] > 0 and found["heartbeat_age_s"] is not None
    assert (found["held"], found["left"], found["paused"]) == (1, [], {})
    assert "card" not in json.dumps(found)

    worker.kill()
    dead = eventually(
        lambda: next((one for one in _listed(stage) if one["state"] == "dead"), None),
        timeout_s=30,
    )
    assert dead is not None
    (left,) = dead["left"]
    assert (left["topic"], left["requests"]) == (stage.topics["work"], 1)
    gate.open()


def test_a_worker_that_stops_cleanly_is_not_listed_any_more(make_stage: MakeStage) -> None:
    stage = make_stage()
    worker = stage.start()
    assert [one["worker_id"] for one in _listed(stage)] == [worker.worker_id]
    assert worker.stop() == 0
    ran = command("workers", "--config", str(stage.config()))
    assert ran.stdout == f"group {stage.group} has no worker, and no dead one either\n"
