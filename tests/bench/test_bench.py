"""The benchmark itself, small."""

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from feedback.kafka.engines import PREFERRED
from tests.bench.__main__ import main
from tests.bench.launching import ROOT
from tests.bench.plan import System
from tests.bench.road.run import CLIENTS
from tests.bench.road.table import STEPS
from tests.bench.rounds import opened
from tests.bench.systems.environments import INSTALL_LIMIT_S, python_of
from tests.bench.systems.peers import PEERS
from tests.stack import Servers


def bench(servers: Servers, output: Path, *options: str) -> subprocess.CompletedProcess[str]:
    argv = (sys.executable, "-m", "tests.bench", "--output", str(output), *options)
    return subprocess.run(
        argv,
        cwd=ROOT,
        env=os.environ | servers.settings(),
        capture_output=True,
        text=True,
        # The limit of the test itself is a little later.
        timeout=170,
    )


@pytest.mark.long
def test_a_small_burst_leaves_a_row_and_a_table(servers: Servers, tmp_path: Path) -> None:
    options = "--burst 300 --rounds 1 --cases burst --only onceward-sqlite"
    ended = bench(servers, tmp_path, *options.split())
    assert (ended.returncode, ended.stderr) == (0, "")
    (row,) = json.loads((tmp_path / "main.json").read_text())
    assert (row["system"], row["journal"], row["engine"]) == ("onceward", "sqlite", PREFERRED)
    assert row["case"] == "burst"
    assert row["requests_per_s"] > 0
    assert row["pss_mib"] > 0
    parts = {one["part"] for one in json.loads((tmp_path / "parts.json").read_text())["rows"]}
    assert {"client", "worker", "children"} <= parts
    assert f"onceward-sqlite-{PREFERRED}, burst" in ended.stdout


# Starts a worker and a client for each.
@pytest.mark.long
def test_worker_and_client_run_on_the_engine_of_their_system(
    servers: Servers, tmp_path: Path
) -> None:
    for system in (System.SQLITE_KAFKA_PYTHON, System.SQLITE_CONFLUENT):
        folder = tmp_path / system
        folder.mkdir()
        with opened(servers, system, folder) as trial:
            for process in (trial.worker, trial.submitting):
                given = psutil.Process(process.pid).environ()
                assert given["ONCEWARD_KAFKA__CLIENT"] == system.engine


# The first run on a machine installs each peer, within the limits of that.
@pytest.mark.long
@pytest.mark.timeout(3 * INSTALL_LIMIT_S + 180)
def test_a_small_burst_of_each_peer_leaves_a_row_beside_ours(
    servers: Servers, tmp_path: Path
) -> None:
    for peer in PEERS.values():
        python_of(peer.product)
    options = "--burst 200 --rounds 1 --cases burst --only onceward-sqlite-confluent --peers"
    ended = bench(servers, tmp_path, *options.split())
    assert (ended.returncode, ended.stderr) == (0, "")
    rows = json.loads((tmp_path / "main.json").read_text())
    assert [(row["system"], row["journal"], row["engine"]) for row in rows] == [
        ("onceward", "sqlite", "confluent"),
        ("celery", None, None),
        ("dramatiq", None, None),
        ("faststream", None, None),
    ]
    assert min(row["requests_per_s"] for row in rows) > 0
    assert min(row["pss_mib"] for row in rows) > 0
    for peer in PEERS.values():
        assert f"{peer.product}, burst" in ended.stdout
        assert f"{peer.product}: {peer.promise}" in ended.stdout
    used = {
        (one["system"], one["part"])
        for one in json.loads((tmp_path / "parts.json").read_text())["rows"]
    }
    assert {("celery", "redis"), ("dramatiq", "redis"), ("faststream", "broker")} <= used


# As the burst above, with more marks.
@pytest.mark.long
def test_the_road_of_single_requests_has_each_step_on_both_clients(
    servers: Servers, tmp_path: Path
) -> None:
    options = "--road --burst 100 --rounds 1 --seconds 2 --cases rate-50 --only onceward-sqlite"
    ended = bench(servers, tmp_path, *options.split())
    assert (ended.returncode, ended.stderr) == (0, "")
    found = json.loads((tmp_path / "road.json").read_text())
    names = [f"onceward-sqlite, {client}, rate-50" for client in CLIENTS]
    assert [*found] == names
    # Who has ended before the first look of its wait was never watching.
    often = {one.what for one in STEPS} - {
        "client: subscribed, first read",
        "of that: after the event",
    }
    for steps in found.values():
        assert often <= steps.keys()
        # One request alone may see the end before the event of it, and on a busy machine a child
        # may begin before its parent has noted that it was told to.
        assert [one for one in often if not steps[one][0] <= steps[one][1] >= 0] == []


@pytest.mark.parametrize(
    "options", [("--only", "nobody"), ("--only", "onceward-sqlite-auto"), ("--cases", "storm")]
)
def test_an_unknown_name_is_a_fault_of_usage(
    tmp_path: Path, options: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--output", str(tmp_path), *options])
    assert ended.value.code == 2
    assert "usage:" in capsys.readouterr().err
