"""What a project calls `consumer` or `feedback` is its own, with a wheel and with a checkout."""

import configparser
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from feedback.errors import ExitCode
from producer_client import Client, State
from tests.face.conftest import LIMIT_S, ROOT, Project
from tests.kit.settings import write_settings
from tests.stack import Servers

ROOMS = ("consumer", "feedback", "producer_client", "spark_audit")
# Imports all that is installed, and tells which names of rooms are taken, and from where.
_IMPORT_ALL = """
import importlib, json, pkgutil, sys
import onceward
ROOMS = ("consumer", "feedback", "producer_client", "spark_audit")
LEFT_OUT = {"__main__", "migrations", "checkout"}
for name in onceward.__all__:
    getattr(onceward, name)
packages = [onceward, *(importlib.import_module("onceward." + room) for room in ROOMS)]
for package in packages:
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not LEFT_OUT & set(found.name.split(".")):
            importlib.import_module(found.name)
taken = [one for one in sys.modules if one.split(".")[0] in ROOMS]
import consumer, feedback
print(json.dumps([taken, feedback.OWN, consumer.charge.__name__, len(sys.modules)]))
"""
# Pickled, as by a pool of the user's own; and named, as in a dead letter.
_NAMES = """
import pickle
from onceward import InvalidMessage, Rejected
from onceward.feedback.foreign import qualified_name
error = pickle.loads(pickle.dumps(Rejected("NO_FUNDS", "none")))
assert type(error) is Rejected and error.code == "NO_FUNDS"
print(qualified_name(error), qualified_name(InvalidMessage("bad")))
"""


def test_nothing_of_ours_is_imported_under_the_name_of_a_room(project: Project) -> None:
    done = project.python("-c", _IMPORT_ALL)
    assert done.returncode == 0, done.stderr
    taken, is_own, function, modules = json.loads(done.stdout)
    assert (taken, is_own, function) == ([], True, "charge")
    assert modules > 600


# As an installer writes it.
_SCRIPT = "import sys\nfrom {module} import {function}\n\nsys.exit({function}())\n"


def test_each_command_runs_where_the_projects_own_names_come_first(project: Project) -> None:
    setup = configparser.ConfigParser()
    setup.read(project.installed / "setup.cfg")
    lines = setup["options.entry_points"]["console_scripts"].strip().split("\n")
    scripts = dict(line.split(" = ") for line in lines)
    folder = project.folder.parent / "bin"
    folder.mkdir()
    for name, place in scripts.items():
        module, _, function = place.partition(":")
        (folder / name).write_text(_SCRIPT.format(module=module, function=function))
        told = subprocess.run(
            (sys.executable, folder / name, "--version"),
            cwd=project.folder,
            env={**project.environ, "PYTHONPATH": f".{os.pathsep}{project.installed}"},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        assert told.stdout.startswith(f"{name}, version "), told.stderr
    assert len(scripts) == 6


def test_the_packages_are_one_name_with_all_files_of_the_rooms(installed: Path) -> None:
    packages = {one.parent for one in installed.glob("*/*.py")}
    assert [one.name for one in packages] == ["onceward"]
    assert not (installed / "onceward" / "checkout").exists()
    for room in ROOMS:
        for file in (ROOT / room).rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                assert (installed / "onceward" / file.relative_to(ROOT)).is_file()


def test_errors_are_pickled_and_have_the_name_that_dead_letters_know(project: Project) -> None:
    done = project.python("-c", _NAMES)
    assert done.stdout.split() == [
        "consumer.handlers.Rejected",
        "feedback.errors.InvalidMessage",
    ], done.stderr


@pytest.mark.parametrize("project", ["wheel"], indirect=True)
def test_the_file_for_spark_holds_the_audit_below_that_name(project: Project) -> None:
    made = project.python("-m", "onceward", "audit", "package")
    assert made.returncode == 0, made.stderr
    file = project.folder / "onceward-audit.py"
    told = subprocess.run(
        (sys.executable, str(file), "--version"), cwd=project.folder, capture_output=True, text=True
    )
    assert told.stdout.startswith("onceward-audit.py, version "), told.stderr
    where = (
        f"import sys; sys.path.insert(0, {str(file)!r})\n"
        "import onceward.spark_audit.run.commands, onceward.spark_audit.run.audit\n"
        "ours = [one for name, one in sys.modules.items() if name.startswith('onceward')]\n"
        "print(*(one.__file__ for one in ours), sep='\\n')"
    )
    places = project.python("-c", where).stdout.splitlines()
    assert len(places) > 30
    assert [one for one in places if not one.startswith(f"{file}/onceward/")] == []


@pytest.mark.parametrize("project", ["checkout"], indirect=True)
def test_no_file_for_spark_is_made_of_a_checkout_whose_names_are_taken(project: Project) -> None:
    refused = project.python("-m", "onceward", "audit", "package")
    assert refused.returncode == ExitCode.NOT_AVAILABLE
    assert (
        f"consumer.py or feedback: install Onceward here, by pip install {ROOT}" in refused.stderr
    )
    assert not list(project.folder.glob("*audit*"))


@pytest.mark.parametrize(
    "project", ["wheel", pytest.param("checkout", marks=pytest.mark.long)], indirect=True
)
def test_a_worker_runs_handlers_of_a_file_called_consumer(
    project: Project, servers: Servers, topic: Callable[..., str], group: str, sqlite_url: str
) -> None:
    name = topic(1)
    (project.folder / "consumer.py").write_text(
        (project.folder / "consumer.py").read_text().replace("payments", name)
    )
    config = write_settings(
        project.folder,
        {
            "kafka": {"bootstrap_servers": servers.kafka, "group": group},
            "redis": {"url": servers.redis},
            "journal": {"url": sqlite_url},
            "worker": {"handlers": ["consumer"], "processes": 1},
        },
    )
    migrated = project.python("-m", "onceward", "worker", "migrate", "--config", str(config))
    assert migrated.returncode == 0, migrated.stderr
    argv = (sys.executable, "-m", "onceward", "worker", "run", "--config", str(config))
    with (
        subprocess.Popen(argv, cwd=project.folder, env=project.environ) as worker,
        Client(config) as client,
    ):
        try:
            ended = client.send({}, topic=name, request_id="order-7").wait(60)
        finally:
            worker.terminate()
    assert (ended.state, ended.result) == (
        State.SUCCEEDED,
        {"of": "consumer", "by": "onceward.consumer.handlers"},
    )
    assert worker.returncode == 0
