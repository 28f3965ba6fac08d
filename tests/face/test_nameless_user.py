"""A container gives its process a user id without a name and without a home, as OpenShift does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from feedback.errors import ExitCode
from onceward.servers.ports import free_port
from tests import preloaded
from tests.face.conftest import ROOT
from tests.kit.settings import environment
from tests.preloaded.forks import PYTHON, Preloaded

LIMIT_S = 120.0
HANDLER = """
from onceward import handler

@handler(topic="payments", effect="transactional")
def pay(request): ...
"""
# Of no entry in /etc/passwd; the files stay ours.
NAMELESS = ("unshare", "--user", "--map-user=54321")
NO_NAME = ("HOME", "USER", "LOGNAME", "XDG_CACHE_HOME")


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Yield what runs a command of ours in a folder, as a user without a name.

    The process that imports all of it and forks the commands has neither name nor home.
    """

    def run(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        settings = environment(
            ONCEWARD_KAFKA__BOOTSTRAP_SERVERS=f"127.0.0.1:{free_port()}",
            ONCEWARD_REDIS__URL=f"redis://127.0.0.1:{free_port()}/0",
            **more,
        )
        nameless = {name: value for name, value in settings.items() if name not in NO_NAME}
        argv = (*PYTHON, "onceward", *words)
        return preloaded.run(argv, environ=nameless, timeout_s=LIMIT_S, cwd=folder, of=forking)

    with closing(Preloaded(*NAMELESS, without=NO_NAME)) as forking:
        yield run


@pytest.fixture(scope="module")
def project(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project with a journal."""
    folder = tmp_path_factory.mktemp("nameless")
    assert run(folder, "init").returncode == ExitCode.FINE
    assert run(folder, "worker", "migrate").returncode == ExitCode.FINE
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ["dev"],
        ["worker", "run"],
        ["client", "send", "{}"],
        ["dlq", "resolve", "order-7", "--succeeded", "--reason", "seen at the bank"],
        ["audit", "run"],
        ["audit", "report"],
    ],
    ids=" ".join,
)
def test_no_command_ends_in_a_stack(run: Run, project: Path, words: list[str]) -> None:
    done = run(project, *words)
    assert done.returncode not in (ExitCode.FINE, ExitCode.INTERNAL), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [["init"], ["dev"], ["worker", "migrate"], ["worker", "check"]],
    ids=" ".join,
)
def test_a_folder_that_it_may_not_write_is_named(
    run: Run, tmp_path: Path, words: list[str]
) -> None:
    (tmp_path / "paying.py").write_text(HANDLER)
    tmp_path.chmod(0o555)
    named = {"KAFKA__GROUP": "g", "JOURNAL__URL": "sqlite:///j.db", "WORKER__HANDLERS": "paying"}
    done = run(tmp_path, *words, **{f"ONCEWARD_{name}": value for name, value in named.items()})
    assert done.returncode == ExitCode.NOT_AVAILABLE, done.stderr
    said = done.stdout + done.stderr
    assert "Traceback" not in said
    assert "Permission denied" in said


def test_spark_needs_a_name_and_the_error_says_how_to_give_one() -> None:
    program = (
        "from feedback.errors import NotAvailable\n"
        "from spark_audit.spark import open_session\n"
        "try: open_session()\n"
        "except NotAvailable as error: print(error)"
    )
    done = subprocess.run(
        [*NAMELESS, sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert "user 54321 has no name" in done.stdout
    assert "onceward:x:54321:0::/tmp:/bin/sh to /etc/passwd" in done.stdout
