"""The level of a worker's logs, in its main process and in its children, and how it changes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from consumer.ops.log_level import LogLevelSignals
from feedback import logs
from feedback.errors import ExitCode
from tests.consumer.features.dead_letters.conftest import MakeBox
from tests.consumer.features.dead_letters.conftest import make_box as make_box
from tests.consumer.stage import Stage
from tests.eventually import eventually
from tests.kit.program import Program

HANDLERS = "tests.consumer.ops.logging_handlers"


@pytest.fixture
def stage(make_box: MakeBox) -> Stage:
    """Return a stage with a handler that logs a line of each level."""
    return make_box("logging", worker={"handlers": [HANDLERS], "processes": 2}).stage


def lines(worker: Program, event: str) -> list[dict[str, Any]]:
    """Return the lines of an event, of the main process or of a child."""
    found = [json.loads(one) for one in worker.log.read_text().splitlines() if one[:1] == "{"]
    return [one for one in found if one["event"] == event]


def logged(stage: Stage, worker: Program) -> set[str]:
    """Have a request run; return the levels at which its handler's lines are in the log."""
    sent = stage.client.send({}, topic=stage.topics["logging"]).request_id
    stage.final(sent)

    def of_it() -> list[dict[str, Any]]:
        return [one for one in lines(worker, "spoken") if one["request_id"] == sent]

    # The last line of a run, which each level lets through.
    eventually(lambda: any(one["level"] == "critical" for one in of_it()), timeout_s=30)
    return {one["level"] for one in of_it()}


def changed(worker: Program, number: signal.Signals, *, to: str) -> None:
    before = len(lines(worker, "log_level.changed"))
    worker.send(number)
    eventually(lambda: len(lines(worker, "log_level.changed")) > before, timeout_s=30)
    assert lines(worker, "log_level.changed")[-1]["now"] == to


ALL = {"debug", "info", "warning", "error", "critical"}


def test_signals_change_the_level_of_the_worker_and_of_its_children(stage: Stage) -> None:
    worker = stage.start()
    assert logged(stage, worker) == ALL - {"debug"}
    assert not [one for one in lines(worker, "spoken") if one["level"] == "debug"]
    changed(worker, signal.SIGUSR1, to="DEBUG")
    assert logged(stage, worker) == ALL
    assert any(
        json.loads(one)["level"] == "debug" and json.loads(one)["event"] != "spoken"
        for one in worker.log.read_text().splitlines()
    )
    changed(worker, signal.SIGUSR2, to="INFO")
    changed(worker, signal.SIGUSR2, to="WARNING")
    assert logged(stage, worker) == ALL - {"debug", "info"}

    # To all processes, as `systemctl kill` does: one step, and no child dies. Nor does a new one
    # begin at another level.
    children = worker.children()
    family = {one.pid for one in worker.family()}
    for pid in family - {worker.pid}:
        os.kill(pid, signal.SIGUSR2)
    changed(worker, signal.SIGUSR2, to="ERROR")
    assert logged(stage, worker) == {"error", "critical"}
    assert {one.pid for one in worker.family()} == family
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: len(set(worker.children()) - set(children)) == 2, timeout_s=60)
    assert logged(stage, worker) == {"error", "critical"}
    assert worker.stop() == 0


def test_children_begin_at_the_level_of_the_worker(stage: Stage) -> None:
    worker = stage.start_as({"ONCEWARD_LOG_LEVEL": "debug"})
    worker.told("worker.started")
    assert logged(stage, worker) == ALL


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
def test_a_signal_ends_no_worker_that_still_reads_its_settings(
    tmp_path: Path, number: signal.Signals
) -> None:
    settings = tmp_path / "onceward.toml"
    os.mkfifo(settings)
    command = (sys.executable, "-m", "consumer", "run", "--config", str(settings))
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as worker:
        with settings.open("w") as pipe:  # opened when the worker opens it
            worker.send_signal(number)
            pipe.write("[kafka]\nnothing = true\n")
        _, said = worker.communicate(timeout=60)
    assert worker.returncode == ExitCode.USAGE, said


def test_steps_end_at_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    signals = LogLevelSignals()
    before = logs.level()
    try:
        logs.set_level("INFO")
        with signals.listening():
            for number in (*[signal.SIGUSR1] * 3, *[signal.SIGUSR2] * 6):
                os.kill(os.getpid(), number)
                signals.apply(told.append)
        signals.apply(told.append)
    finally:
        logs.set_level(before)
    assert told[:4] == ["DEBUG", "DEBUG", "DEBUG", "INFO"]
    assert told[4:] == ["WARNING", "ERROR", "CRITICAL", "CRITICAL", "CRITICAL"]
