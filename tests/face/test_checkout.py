"""In a checkout a room has two names and is one: `onceward.consumer` and `consumer`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.face.conftest import ROOT
from tests.kit.settings import environment

LIMIT_S = 60.0
_TWICE = """
import json, sys
{first}
{second}
import consumer.handlers.registry, onceward.consumer.handlers.registry as below
import consumer, onceward, onceward.consumer, producer_client, onceward.producer_client.client
from consumer import Rejected, handler
from producer_client import Client

assert below is consumer.handlers.registry is sys.modules["onceward.consumer.handlers.registry"]
assert onceward.consumer is consumer and consumer.__spec__.name == consumer.__name__ == "consumer"
assert onceward.Rejected is Rejected and onceward.producer_client.client.Client is Client

@onceward.handler(topic="payments")
def charge(request): ...

assert below.DECLARED.for_topic("payments").function is charge
ours = [one for name, one in sys.modules.items() if "onceward" not in name]
files = [one.__file__ for one in ours if (getattr(one, "__file__", "") or "").startswith({root!r})]
print(json.dumps([len(files), len(set(files)), Rejected.__module__]))
"""


def python(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run an interpreter that finds the checkout."""
    return subprocess.run(
        (sys.executable, *arguments),
        cwd=folder,
        env=environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("import consumer", "import onceward"),
        ("import onceward", "import consumer"),
        ("from onceward import Request", "from consumer import Request"),
        ("import onceward.consumer.ops.service", "import consumer.ops.service"),
        ("import consumer.ops.service", "import onceward.consumer.ops.service"),
    ],
)
def test_a_module_is_loaded_once_whichever_name_comes_first(first: str, second: str) -> None:
    done = python("-c", _TWICE.format(first=first, second=second, root=str(ROOT)))
    assert done.returncode == 0, done.stderr
    files, different, home = json.loads(done.stdout)
    assert files == different > 20
    assert home == "consumer.handlers"


def test_commands_run_under_both_names() -> None:
    for module in ("consumer", "onceward.consumer"):
        told = python("-m", module, "--version")
        assert told.stdout.startswith(f"python -m {module}, version "), told.stderr


def test_what_is_not_there_is_not_found_under_either_name() -> None:
    for name in ("onceward.nothing", "onceward.consumer.nothing"):
        done = python("-c", f"import {name}")
        assert done.stderr.splitlines()[-1] == f"ModuleNotFoundError: No module named {name!r}"
