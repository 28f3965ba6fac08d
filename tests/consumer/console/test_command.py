"""`onceward-console` as a process."""

import os
import sys
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from consumer.console.commands import cli
from feedback.errors import ExitCode
from tests.consumer.features.dead_letters.conftest import MakeBox
from tests.kit.program import StartedProgram
from tests.kit.settings import write_settings


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "console.example"])
def test_it_listens_on_this_host_alone(host: str, tmp_path: Path) -> None:
    config = write_settings(tmp_path)
    done = CliRunner().invoke(cli, ["--host", host, "--config", str(config)])
    assert done.exit_code == ExitCode.USAGE
    assert f"--host {host}: the console asks nobody who they are" in done.stderr


def test_it_serves_until_it_is_asked_to_end(make_box: MakeBox, tmp_path: Path) -> None:
    config = make_box("work").stage.config()
    argv = (sys.executable, "-m", "consumer.console", "--port", "0", "--config", str(config))
    console = StartedProgram(argv, log=tmp_path / "console.log", environ=os.environ)
    try:
        port = console.told("console.started")["port"]
        assert f"the console is at http://127.0.0.1:{port}/" in console.stderr
        assert httpx.get(f"http://127.0.0.1:{port}/workers", timeout=30).status_code == 200
        page = f"http://127.0.0.1:{port}/workers"
        events = {"Accept": "text/event-stream"}
        # The first event comes after three seconds, on a machine that does not stand still.
        with httpx.stream("GET", page, headers=events, timeout=60) as followed:
            lines = followed.iter_lines()
            assert next(lines) == "event: content"
            # A stream ends whole, which a server that waits for it until its limit would cut. It
            # does not say that nobody may look any more: the browser asks the next process.
            assert console.stop() == ExitCode.FINE
            assert "event: over" not in [*lines]
    finally:
        console.kill()


def test_it_serves_without_docstrings_and_assertions(make_box: MakeBox, tmp_path: Path) -> None:
    config = make_box("work").stage.config()
    argv = (sys.executable, "-m", "consumer.console", "--port", "0", "--config", str(config))
    environ = {**os.environ, "PYTHONOPTIMIZE": "2"}
    console = StartedProgram(argv, log=tmp_path / "console.log", environ=environ)
    try:
        port = console.told("console.started")["port"]
        for page in ("", "workers", "requests", "doubts", "letters", "topics", "actions", "audit"):
            answer = httpx.get(f"http://127.0.0.1:{port}/{page}", timeout=60)
            assert answer.status_code == 200, page
            # A server that could not be asked is named.
            assert 'class="away"' not in answer.text, (page, answer.text)
        assert console.stop() == ExitCode.FINE
    finally:
        console.kill()
