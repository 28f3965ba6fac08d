"""`onceward init`: its files bring a first SUCCEEDED, by the commands that it names."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest
from click.testing import CliRunner

from feedback.settings.settings import load
from onceward.commands import cli
from tests.documents import documents, examples
from tests.eventually import eventually
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


@dataclass(frozen=True, slots=True)
class Project:
    """A first project whose topic no other test has.

    Attributes:
        topic: also the name of its module.
    """

    folder: Path
    topic: str
    environ: dict[str, str]

    def run(self, *arguments: str) -> str:
        """Run a program in the folder, and return what it prints.

        Args:
            arguments: of Python.
        """
        done = subprocess.run(
            (sys.executable, *arguments),
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def send(self, *arguments: str) -> dict[str, object]:
        """Send a request by the command, and return its status."""
        told: dict[str, object] = json.loads(
            self.run("-m", "onceward", "client", "send", *arguments, "--json")
        )
        return told

    @contextmanager
    def worker(self) -> Iterator[None]:
        """Run a worker until the block is left; it has made the topic when the block begins."""
        argv = (sys.executable, "-m", "onceward", "worker", "run", "--create-topics")
        with NamedTemporaryFile() as log:
            worker = subprocess.Popen(argv, cwd=self.folder, env=self.environ, stderr=log)
            try:
                eventually(
                    lambda: b"worker.started" in Path(log.name).read_bytes(), timeout_s=LIMIT_S
                )
                yield
            finally:
                worker.terminate()
                assert worker.wait(LIMIT_S) == 0


@pytest.fixture
def project(folder: Path, servers: Servers) -> Project:
    """Return a project that `onceward init` has written, with its journal's tables."""
    environ = environment(
        PYTHONPATH=str(ROOT),
        ONCEWARD_KAFKA__BOOTSTRAP_SERVERS=servers.kafka,
        ONCEWARD_REDIS__URL=servers.redis,
    )
    made = Project(folder, f"first_{uuid.uuid4().hex}", environ)
    made.run("-m", "onceward", "init", "--topic", made.topic)
    made.run("-m", "onceward", "worker", "migrate")
    return made


def test_its_commands_bring_the_first_success(project: Project) -> None:
    with project.worker():
        sent = project.send('{"amount": 5}', "--id", "order-7", "--wait", "60")
    assert sent["status"] == "SUCCEEDED"
    charges = (project.folder / "bank.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(one)["amount"] for one in charges] == [5]


def test_the_readmes_handler_command_and_client_run_as_they_are_printed(project: Project) -> None:
    handler, client = (examples()[f"README.md {number}"] for number in (1, 2))
    (command,) = re.findall(r"^onceward-client send (.*)$", documents()["README.md"], re.M)
    ours = f'topic="{project.topic}"'
    assert all('topic="payments"' in one for one in (handler, client))
    module = project.folder / f"{project.topic}.py"
    module.write_text(handler.replace('topic="payments"', ours), encoding="utf-8")
    ours_too = command.replace("--topic payments", f"--topic {project.topic}")
    # The worker beside it has only begun.
    words = shlex.split(ours_too.replace("--wait 10", "--wait 60"))
    with project.worker():
        first = project.send(*words)
        second = project.send(*words)
        told = project.run("-c", client.replace('topic="payments"', ours))
    assert first["result"] == second["result"] == {"charged": 5}
    assert told == "SUCCEEDED\n"
    assert (project.folder / "bank.txt").read_text(encoding="utf-8").count("\n") == 1
