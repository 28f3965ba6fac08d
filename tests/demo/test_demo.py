"""The demo as its user runs it: a short one to its end, one cut short, one without servers."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest

from tests.demo.scene import ROOT
from tests.eventually import eventually
from tests.spark_audit.jars import audit_jars
from tests.spark_audit.small import SMALL
from tests.stack import Servers
from tests.stack.servers import JOURNAL, KAFKA, REDIS

DEMO = (sys.executable, "-m", "tests.demo")
ENDS_WITHIN_S = 110.0
# A session of Spark beside other tests.
AUDITED_WITHIN_S = 300.0
KEYS = {
    "sent",
    "succeeded",
    "failed",
    "in_doubt",
    "resent",
    "ran_twice",
    "never_told",
    "seconds",
}


def start_demo(output: Path, settings: Mapping[str, str], *options: str) -> subprocess.Popen[str]:
    """Start a demo whose processes can be known by `output` in their command lines."""
    inherited = {
        name: value for name, value in os.environ.items() if name not in (KAFKA, REDIS, JOURNAL)
    }
    return subprocess.Popen(
        (*DEMO, "--output", str(output), *options),
        cwd=ROOT,
        env=inherited | dict(settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def left_running(output: Path) -> list[int]:
    """Return the processes of the demo that wrote to `output`."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if any(str(output) in word for word in process.info["cmdline"] or ())
    ]


def all_gone(output: Path) -> None:
    """Wait for the end of all processes of a demo: who kills them does not wait for it."""
    eventually(lambda: left_running(output) == [], what="the end of all processes")


def charged_once(printed: str, output: Path) -> None:
    """Assert what the bank's account and the clients of 200 payments say after a kill."""
    assert "KILLED by SIGKILL" in printed
    assert "Nobody was charged twice, and every client was told." in printed
    told = json.loads((output / "demo.json").read_text())
    assert told.keys() == KEYS
    assert (told["sent"], told["failed"]) == (200, 0)
    assert (told["ran_twice"], told["never_told"]) == (0, 0)
    assert told["succeeded"] + told["in_doubt"] == 200
    started = [path.read_text().count("worker.started") for path in output.glob("*/worker-*.log")]
    assert sorted(started) == [1, 2]


def test_a_demo_with_a_killed_worker_charges_nobody_twice_and_tells_everybody(
    servers: Servers, postgres_url: str, tmp_path: Path
) -> None:
    settings = servers.settings() | {JOURNAL: postgres_url}
    options = ("--payments", "200", "--rate", "60", "--no-audit")
    with start_demo(tmp_path, settings, *options) as demo:
        printed, _ = demo.communicate(timeout=ENDS_WITHIN_S)

    assert demo.returncode == 0, printed
    charged_once(printed, tmp_path)
    assert not list(tmp_path.glob("demo/audit/*"))
    assert "The audit" not in printed
    all_gone(tmp_path)


@pytest.mark.long
@pytest.mark.timeout(AUDITED_WITHIN_S + 30)
def test_a_demo_ends_with_an_audit_that_finds_nothing(
    servers: Servers, postgres_url: str, tmp_path: Path
) -> None:
    audit_jars()
    settings = servers.settings() | {JOURNAL: postgres_url}
    settings["ONCEWARD_AUDIT__SPARK_CONF"] = json.dumps(SMALL)
    with start_demo(tmp_path, settings, "--payments", "200", "--rate", "60") as demo:
        printed, _ = demo.communicate(timeout=AUDITED_WITHIN_S)

    assert demo.returncode == 0, printed
    charged_once(printed, tmp_path)
    (page,) = tmp_path.glob("demo/audit/reports/*/report.html")
    assert "nothing lost, nothing ran twice" in page.read_text().lower()
    assert ": GOOD, 200 requests: 0 lost" in " ".join(printed.split())
    all_gone(tmp_path)


@pytest.mark.long
@pytest.mark.timeout(AUDITED_WITHIN_S + 30)
def test_a_demo_without_kafka_for_a_while_loses_no_payment_and_doubles_none(
    servers: Servers, postgres_url: str, tmp_path: Path
) -> None:
    audit_jars()
    settings = servers.settings() | {JOURNAL: postgres_url}
    settings["ONCEWARD_AUDIT__SPARK_CONF"] = json.dumps(SMALL)
    options = ("--payments", "200", "--rate", "40", "--cut-kafka", "5")
    with start_demo(tmp_path, settings, *options) as demo:
        printed, _ = demo.communicate(timeout=AUDITED_WITHIN_S)

    assert demo.returncode == 0, printed
    assert "KAFKA KILLED; it stays away for 5 s" in printed
    assert "Kafka is back" in printed
    assert "Nobody was charged twice, and every client was told." in printed
    told = json.loads((tmp_path / "demo.json").read_text())
    assert (told["sent"], told["ran_twice"], told["never_told"]) == (200, 0, 0)
    assert ": GOOD, 200 requests: 0 lost" in " ".join(printed.split())
    all_gone(tmp_path)


@pytest.mark.long
def test_a_demo_that_is_terminated_leaves_no_process_and_no_verdict(
    servers: Servers, tmp_path: Path
) -> None:
    (tmp_path / "demo.json").write_text("of another run")
    with start_demo(tmp_path, servers.settings(), "--journal", "sqlite") as demo:
        assert demo.stdout is not None
        assert any("are alive" in line for line in demo.stdout)
        assert len(left_running(tmp_path)) > 1
        demo.send_signal(signal.SIGTERM)
        demo.communicate(timeout=ENDS_WITHIN_S)

    assert demo.returncode == 128 + signal.SIGTERM
    all_gone(tmp_path)
    assert not (tmp_path / "demo.json").exists()


def test_a_demo_that_is_killed_leaves_no_process(servers: Servers, tmp_path: Path) -> None:
    with start_demo(tmp_path, servers.settings(), "--journal", "sqlite") as demo:
        assert demo.stdout is not None
        assert any("the bank is open" in line for line in demo.stdout)
        demo.kill()
        demo.communicate(timeout=ENDS_WITHIN_S)

    all_gone(tmp_path)


def test_a_demo_without_servers_says_how_to_have_them_and_exits_with_3(tmp_path: Path) -> None:
    with start_demo(tmp_path, {}) as demo:
        printed, _ = demo.communicate(timeout=ENDS_WITHIN_S)

    assert demo.returncode == 3
    assert "make demo" in printed


def test_a_demo_without_a_journal_shows_why_and_exits_with_3(
    servers: Servers, tmp_path: Path
) -> None:
    nobody = "postgresql+psycopg://nobody@127.0.0.1:1/none"
    with start_demo(tmp_path, servers.settings() | {JOURNAL: nobody}) as demo:
        printed, _ = demo.communicate(timeout=ENDS_WITHIN_S)

    assert demo.returncode == 3
    assert "the journal's tables were not made" in printed
