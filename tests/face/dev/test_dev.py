"""`onceward dev`: one command to the first SUCCEEDED, a reload on change, and nothing left."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import socket
import subprocess
import sys
import termios
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from feedback.errors import ExitCode
from feedback.status import State
from onceward.commands import cli
from onceward.servers.ports import HOST, free_port
from producer_client import Client
from tests.eventually import HANG_S, eventually
from tests.face.conftest import ROOT
from tests.face.dev.running import LIMIT_S, Dev, client, running_dev
from tests.kit.settings import environment
from tests.stack import Servers


def _init(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write a first project; return its topic, which is also the name of its module."""
    topic = f"first_{uuid.uuid4().hex}"
    monkeypatch.chdir(folder)
    assert CliRunner().invoke(cli, ["init", "--topic", topic]).exit_code == 0
    return topic


def _given(servers: Servers) -> dict[str, str]:
    return {
        "ONCEWARD_KAFKA__BOOTSTRAP_SERVERS": servers.kafka,
        "ONCEWARD_REDIS__URL": servers.redis,
    }


@pytest.fixture
def own_ports() -> Iterator[dict[str, str]]:
    """Yield settings of ports at which nothing listens; the broker's controller has the next."""
    while True:
        port = free_port()
        with socket.socket() as probe:
            if probe.connect_ex((HOST, port + 1)):
                break
    yield {
        "ONCEWARD_KAFKA__BOOTSTRAP_SERVERS": f"{HOST}:{port}",
        "ONCEWARD_REDIS__URL": f"redis://{HOST}:{free_port()}/0",
    }


def test_a_change_starts_the_worker_anew_and_a_broken_file_waits_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servers: Servers
) -> None:
    topic = _init(tmp_path, monkeypatch)
    handlers = tmp_path / f"{topic}.py"
    with running_dev(tmp_path, **_given(servers)) as dev:
        assert dev.shows("Kafka found running")
        assert dev.shows("Redis found running")
        assert dev.shows("worker.started")
        assert dev.shows("resender.started")
        text = handlers.read_text()
        handlers.write_text(f"{text}\nimport no_such_module\n")
        assert dev.shows("No module named 'no_such_module'")
        assert dev.shows("ended with code 2: it starts again when a file changes")
        handlers.write_text(text.replace('{"receipt": receipt}', '{"bill": receipt}'))
        assert dev.shows("worker.started", times=2)
        ended = client(dev, "send", '{"amount": 5}', "--id", "order-7", "--wait", "60")
        assert ended["status"] == "SUCCEEDED"
        assert "bill" in str(ended["result"])
        assert dev.ends(signal.SIGINT) == ExitCode.FINE
        assert dev.output.read_text().endswith("dev      | stopped\n")


def test_it_says_which_settings_a_client_needs_without_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servers: Servers
) -> None:
    topic = _init(tmp_path, monkeypatch)
    (tmp_path / "onceward.toml").unlink()
    with running_dev(tmp_path, f"{topic}.py", **_given(servers)) as dev:
        assert dev.shows("worker.started")
        exports = [one.split() for one in dev.output.read_text().splitlines() if "export" in one]
        named = dict(one[1].split("=", 1) for one in exports)
        assert named["ONCEWARD_KAFKA__GROUP"] == topic
        assert named["ONCEWARD_JOURNAL__URL"].endswith(".onceward/journal.db")
        beside = Dev(dev.folder, dev.environ | named, dev.process)
        sent = ("send", '{"amount": 5}', "--topic", topic, "--wait", "60")
        assert client(beside, *sent)["status"] == "SUCCEEDED"
        assert dev.ends(signal.SIGTERM) == ExitCode.FINE


def test_it_starts_servers_that_keep_their_data_and_die_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_ports: dict[str, str]
) -> None:
    _init(tmp_path, monkeypatch)
    with running_dev(tmp_path, **own_ports) as dev:
        assert dev.shows("Kafka started at")
        assert dev.shows("Redis started at")
        ended = client(dev, "send", '{"amount": 5}', "--id", "order-7", "--wait", "60")
        assert ended["status"] == "SUCCEEDED"
        _refuses_a_second(tmp_path, monkeypatch, own_ports)
        assert {"java", "redis-server"} <= {one.name() for one in dev.family()}
        assert dev.ends(signal.SIGKILL) == -signal.SIGKILL
    with running_dev(tmp_path, **own_ports) as dev:
        assert dev.shows("worker.started")
        assert client(dev, "status", "order-7")["status"] == "SUCCEEDED"
        again = client(dev, "send", '{"amount": 6}', "--id", "order-8", "--wait", "60")
        assert again["status"] == "SUCCEEDED"
        assert dev.ends(signal.SIGTERM) == ExitCode.FINE


def test_servers_alone_have_no_worker_and_need_no_handler(
    tmp_path: Path, own_ports: dict[str, str]
) -> None:
    with running_dev(tmp_path, "--servers", **own_ports) as dev:
        assert dev.shows("no worker runs here; Ctrl-C stops all of this")
        assert dev.shows("Kafka started at")
        assert {"java", "redis-server"} <= {one.name() for one in dev.family()}
        assert dev.ends(signal.SIGINT) == ExitCode.FINE
        lines = dev.output.read_text().splitlines()
        assert {one.split()[0] for one in lines} == {"dev"}
        assert lines[-1].endswith("stopped")


def test_servers_alone_take_no_handlers() -> None:
    done = CliRunner().invoke(cli, ["dev", "--servers", "payments.py"])
    assert done.exit_code == ExitCode.USAGE
    assert "--servers runs no handlers" in done.output


def _refuses_a_second(folder: Path, monkeypatch: pytest.MonkeyPatch, ports: dict[str, str]) -> None:
    """In its folder and, on its ports, in another one."""
    for name, value in ports.items():
        monkeypatch.setenv(name, value)
    other = folder / "other"
    other.mkdir()
    for here in (folder, other):
        monkeypatch.chdir(here)
        done = CliRunner().invoke(cli, ["dev", "--config", str(folder / "onceward.toml")])
        assert done.exit_code == ExitCode.NOT_AVAILABLE
        assert "another `onceward dev` (pid " in done.output
        assert f"in {folder}" in done.output


def _dev_here(monkeypatch: pytest.MonkeyPatch, folder: Path, **settings: str) -> tuple[int, str]:
    _init(folder, monkeypatch)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    done = CliRunner().invoke(cli, ["dev"])
    return done.exit_code, done.output


def test_one_command_brings_the_missing_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_ports: dict[str, str]
) -> None:
    settings = {"PATH": "/nowhere", "XDG_CACHE_HOME": str(tmp_path / "cache"), **own_ports}
    code, said = _dev_here(monkeypatch, tmp_path, **settings)
    assert code == ExitCode.NOT_AVAILABLE
    packages = "maven openjdk-17-jre-headless redis-server"
    assert f"run `apt-get install {packages}` as root" in said


def test_another_program_at_a_port_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servers: Servers
) -> None:
    given = _given(servers) | {"ONCEWARD_REDIS__URL": f"redis://{servers.kafka}/0"}
    code, said = _dev_here(monkeypatch, tmp_path, **given)
    assert code == ExitCode.NOT_AVAILABLE
    assert "starts Redis only on a free port" in said


def test_servers_of_another_machine_are_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servers: Servers
) -> None:
    given = _given(servers) | {"ONCEWARD_REDIS__URL": f"redis://:secret@{HOST}:1/0"}
    code, said = _dev_here(monkeypatch, tmp_path, **given)
    assert code == ExitCode.NOT_AVAILABLE
    assert "starts Redis only on" in said
    assert "secret" not in said
    assert os.listdir(tmp_path / ".onceward")  # noqa: PTH208


PAYS = """
import time
from pathlib import Path

from onceward import Request, handler


@handler(topic="{topic}", effect="marked")
def pay(request: Request) -> str:
    with request.effect():
        Path("began").touch()
        time.sleep(1)
    return "paid"
"""


def test_a_closed_terminal_ends_the_runs_and_leaves_no_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servers: Servers
) -> None:
    topic = _init(tmp_path, monkeypatch)
    (tmp_path / f"{topic}.py").write_text(PAYS.format(topic=topic))
    ours, theirs = pty.openpty()
    environ = environment(PYTHONPATH=str(ROOT), **_given(servers))
    dev = subprocess.Popen(
        (sys.executable, "-m", "onceward", "dev"),
        cwd=tmp_path,
        env=environ,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        # Its controlling terminal: the kernel tells it of the end.
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    read = threading.Thread(target=_read_until, args=(ours, b"worker.started"))
    read.start()
    read.join(LIMIT_S)
    for name, value in _given(servers).items():
        monkeypatch.setenv(name, value)
    with Client(tmp_path / "onceward.toml") as sender:
        sender.send({"amount": 5}, topic=topic, request_id=topic)
        eventually((tmp_path / "began").exists, timeout_s=LIMIT_S)
        os.close(ours)
        code = dev.wait(HANG_S)
        status = sender.status(topic)
    assert (code, status.state) == (ExitCode.FINE, State.SUCCEEDED)


def _read_until(terminal: int, text: bytes) -> None:
    shown = b""
    while text not in shown:
        shown += os.read(terminal, 65_536)
