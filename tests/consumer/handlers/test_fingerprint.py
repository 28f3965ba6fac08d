"""Two processes that declare the same say the same; any other declaration says something else."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from consumer.handlers.backoff import Custom, Fixed
from consumer.handlers.declaration import DeliveryKind, EffectKind, Handler, InDoubtPolicy, Order
from consumer.handlers.fingerprint import digest
from consumer.pool import ChildFailed, ChildReady
from feedback.records.schemas import SchemaFile
from tests.consumer.conftest import MakeStage
from tests.consumer.foreign import Sent
from tests.consumer.pool.conftest import make_pool
from tests.consumer.pool.driving import HANDLERS, Driven
from tests.consumer.running import RunningWorker
from tests.consumer.stage import Stage
from tests.eventually import eventually

__all__ = ["make_pool"]

PRINTED = """
import sys
from consumer.handlers.fingerprint import digest
from consumer.handlers.registry import HandlerRegistry
print(digest(HandlerRegistry.load(sys.argv[1:], group="payments").handlers))
"""


def _digest_elsewhere(module: str, *, seed: str) -> str:
    """Return what another process says of a module: this one has imported many more."""
    environ = {**os.environ, "PYTHONHASHSEED": seed}
    command = [sys.executable, "-c", PRINTED, module]
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    return ran.stdout.strip()


@pytest.mark.parametrize("module", ["trying", "asking"])
def test_every_process_says_the_same_of_the_same_declarations(module: str) -> None:
    name = f"tests.consumer.pool.{module}_handlers"
    assert _digest_elsewhere(name, seed="1") == _digest_elsewhere(name, seed="2")


CHANGES: dict[str, Any] = {
    "function": len,
    "topic": "other",
    "name": "m:other",
    "effect": EffectKind.MARKED,
    "in_doubt": InDoubtPolicy.QUERY,
    "query": len,
    "time_limit_s": 3.0,
    "deadline_s": 4.0,
    "model": int,
    "retry_on": (OSError,),
    "is_coroutine": True,
    "never_retry": ("NO",),
    "follow_causes": True,
    "retries": Fixed("1s", tries=2),
    "retries_within_s": 5.0,
    "blocking": Fixed("20ms", tries=1),
    "blocking_within_s": 0.7,
    "dead_letters_of": "sales",
    "on_error": "retry",
    "order": Order.KEY,
    "outcome_topic": "ends",
    "schema": SchemaFile("a.json"),
    "delivery": DeliveryKind.BATCH,
    "collapse": len,
}


@pytest.mark.parametrize("field", Handler.__dataclass_fields__)
def test_whatever_is_declared_otherwise_is_seen(field: str) -> None:
    one = Handler(print, topic="t", name="m:f")
    other = replace(one, **{field: CHANGES[field]})
    assert digest([one]) != digest([other])
    assert digest([other]) == digest([replace(other)])


def test_objects_without_a_name_count_by_their_class() -> None:
    made = [
        Handler(functools.partial(print), topic="t", name="m:f", query=functools.partial(len))
        for _ in range(2)
    ]
    assert digest(made[:1]) == digest(made[1:])
    assert "Custom" in Custom.__qualname__


def test_a_child_that_declares_something_else_is_not_used(make_pool: Any) -> None:
    driven: Driven = make_pool(is_awaited=False, declarations="something else")
    driven.until(lambda: driven.told(ChildFailed))
    assert driven.told(ChildReady) == []
    assert driven.pool.free_slots == 0 and driven.pool.is_outdated
    (failed,) = driven.told(ChildFailed)
    assert failed.reason == "declares other handlers than its worker"


def test_a_child_that_declares_the_same_is_used(make_pool: Any) -> None:
    driven: Driven = make_pool(declarations=_digest_elsewhere(HANDLERS, seed="1"))
    assert driven.pool.free_slots == 1 and not driven.pool.is_outdated


DECLARED = """
import json, os, pathlib
from consumer import handler

@handler(topic=json.loads(os.environ["TEST_TOPICS"])["work"], effect="{effect}")
def work(request):
    gate = request.json().get("gate")
    if gate:
        pathlib.Path(gate).read_text()

pathlib.Path(__file__).with_name(f"read-by-{{os.getpid()}}").touch()
"""


def test_a_worker_whose_files_were_changed_finishes_what_runs_and_ends_with_the_reason(
    make_stage: MakeStage, tmp_path: Path
) -> None:
    stage = make_stage()
    _, worker = _start_deployed(stage, tmp_path, processes=2)
    gate, sent = _produce_gated(stage, tmp_path)
    eventually(lambda: stage.row(sent.coordinates_id), timeout_s=30)
    _deploy(tmp_path, effect="external")
    eventually(lambda: _kill_the_idle_one(worker.children(), gate), timeout_s=30)
    worker.told("worker.draining")
    gate.write_text("go")
    assert worker.wait() == 3
    assert "the handlers' files were changed while this worker ran" in worker.tail
    assert stage.final(sent.coordinates_id).state == "SUCCEEDED"
    assert stage.row(sent.coordinates_id)["effect_kind"] == "marked"  # type: ignore[index]


def test_a_worker_whose_last_child_died_behind_such_a_change_leaves_its_runs_to_the_next_one(
    make_stage: MakeStage, tmp_path: Path
) -> None:
    stage = make_stage()
    config, worker = _start_deployed(stage, tmp_path, processes=1, drain_timeout_s=300)
    gate, sent = _produce_gated(stage, tmp_path)
    (child,) = worker.children()
    eventually(lambda: _waits_at(child, gate), timeout_s=30)
    _deploy(tmp_path, effect="external")
    os.kill(child, signal.SIGKILL)
    # No child is left for the run that is to be made again. A whole drain would last too long here.
    assert worker.wait() == 3
    assert worker.told("worker.cut")["runs"] == 1
    stage.start_as({"PYTHONPATH": str(tmp_path)}, config=config)
    eventually(lambda: _is_opened(gate), timeout_s=30)
    assert stage.final(sent.coordinates_id).state == "SUCCEEDED"
    assert stage.row(sent.coordinates_id)["generation"] == 2  # type: ignore[index]


def _deploy(folder: Path, *, effect: str) -> None:
    (folder / "deployed_handlers.py").write_text(DECLARED.format(effect=effect))


def _start_deployed(
    stage: Stage, folder: Path, *, processes: int, **changes: Any
) -> tuple[Path, RunningWorker]:
    """Start a worker whose children have read their handlers; return its settings as well."""
    _deploy(folder, effect="marked")
    section = {"handlers": ["deployed_handlers"], "processes": processes, **changes}
    config = stage.config(worker=section)
    worker = stage.start_as({"PYTHONPATH": str(folder)}, config=config)
    worker.told("worker.started")
    # A child that reads the file after a change ends by itself, and nobody can kill it.
    eventually(lambda: _readers(folder, worker.children()) == processes, timeout_s=30)
    return config, worker


def _produce_gated(stage: Stage, folder: Path) -> tuple[Path, Sent]:
    """Send a request that waits at a gate in the folder, and return both."""
    gate = folder / "gate"
    os.mkfifo(gate)
    return gate, stage.produce(b'{"gate": "%s"}' % str(gate).encode())


def _readers(folder: Path, children: list[int]) -> int:
    return sum((folder / f"read-by-{pid}").exists() for pid in children)


def _kill_the_idle_one(children: list[int], gate: Path) -> bool:
    """Kill the child that does not wait at the gate, once the other one does."""
    waiting = [pid for pid in children if _waits_at(pid, gate)]
    idle = [pid for pid in children if pid not in waiting]
    if len(waiting) == 1 and idle:
        os.kill(idle[0], signal.SIGKILL)
        return True
    return False


def _waits_at(pid: int, gate: Path) -> bool:
    # A reader that waits for its writer has no descriptor of it yet: the kernel says where it is.
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return any("wait_for_partner" in (task / "wchan").read_text() for task in tasks)


def _is_opened(gate: Path) -> bool:
    """Let through who waits at the gate; False if nobody does."""
    try:
        end = os.open(gate, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return False
    os.close(end)
    return True
