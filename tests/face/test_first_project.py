"""`onceward init`: its files bring a first SUCCEEDED, by the commands that it names."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from click.testing import CliRunner

from feedback.settings.settings import load
from onceward.commands import cli
from tests.face.conftest import ROOT
from tests.kit.file_rights import everything_allowed, rights
from tests.kit.settings import environment
from tests.stack import Servers

LIMIT_S = 120.0


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, and return it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _init(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["init", *arguments])
    return done.exit_code, done.output


def test_it_writes_settings_that_load_and_changes_no_file(folder: Path) -> None:
    code, said = _init()
    assert code == 0
    assert "wrote onceward.toml\nwrote payments.py" in said
    assert load("onceward.toml").worker.handlers == ("payments",)
    before = {one: one.read_bytes() for one in folder.rglob("*") if one.is_file()}
    assert _init()[0] == 2
    assert {one: one.read_bytes() for one in before} == before


def test_settings_and_data_are_their_owners_alone(folder: Path) -> None:
    with everything_allowed():
        assert _init()[0] == 0
    assert (rights(Path("onceward.toml")), rights(Path(".onceward"))) == (0o600, 0o700)


@pytest.mark.parametrize("topic", ["a-b", "../x", "", "1a"])
def test_a_topic_that_names_no_module_is_refused(folder: Path, topic: str) -> None:
    assert _init("--topic", topic)[0] == 2
    assert list(folder.iterdir()) == []


def test_its_commands_bring_the_first_success(folder: Path, servers: Servers) -> None:
    unique = f"first_{uuid.uuid4().hex}"
    environ = environment(
        PYTHONPATH=str(ROOT),
        ONCEWARD_KAFKA__BOOTSTRAP_SERVERS=servers.kafka,
        ONCEWARD_REDIS__URL=servers.redis,
    )

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            (sys.executable, "-m", "onceward", *arguments),
            cwd=folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, done.stderr
        return done

    run("init", "--topic", unique)
    run("worker", "migrate")
    worker = subprocess.Popen(
        (sys.executable, "-m", "onceward", "worker", "run", "--create-topics"),
        cwd=folder,
        env=environ,
        stderr=subprocess.DEVNULL,
    )
    try:
        sent = run("client", "send", '{"amount": 5}', "--id", "order-7", "--wait", "60", "--json")
        assert json.loads(sent.stdout)["status"] == "SUCCEEDED"
    finally:
        worker.terminate()
        assert worker.wait(LIMIT_S) == 0
    charges = (folder / "bank.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(one)["amount"] for one in charges] == [5]
