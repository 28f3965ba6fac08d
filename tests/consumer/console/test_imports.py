"""A console is a small process: it loads nothing of a worker, and no second loop."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import uvicorn

from consumer.console import server
from feedback.settings.settings import load
from tests.kit.settings import write_settings

ROOT = Path(__file__).parents[3]
LIMIT_S = 60.0
# A terminal's tables, and the worker's machinery: its rooms, and its writes to the journal.
NEEDLESS = {
    "rich",
    "uvloop",
    "alembic",
    "consumer.features.pausing.pausing",
    "consumer.intake.intake",
    "consumer.journal.claims.claiming",
    "consumer.journal.commits",
    "consumer.journal.journal",
    "consumer.journal.losses.republish",
    "consumer.loop.core",
    "consumer.loop.feature",
    "consumer.loop.worker",
    "consumer.ops.health.probe",
    "consumer.pool.pool",
    "consumer.status.status_writer",
}


def test_what_a_console_imports_has_nothing_of_a_worker_and_of_a_terminal() -> None:
    program = "import sys, consumer.console.commands, consumer.console.server; print(*sys.modules)"
    done = subprocess.run(
        (sys.executable, "-c", program),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=LIMIT_S,
    )
    loaded = {*done.stdout.split()}
    assert "consumer.console.pages" in loaded
    assert not NEEDLESS & loaded


def test_it_runs_on_the_loop_of_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[uvicorn.Config] = []

    def note(self: uvicorn.Server, sockets: Sequence[socket.socket]) -> None:
        made.append(self.config)

    monkeypatch.setattr(server._ConsoleServer, "run", note)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server.serve(load(write_settings(tmp_path)), listening)
    (config,) = made
    factory = config.get_loop_factory()
    assert factory is not None
    assert factory.__module__.startswith("asyncio.")
