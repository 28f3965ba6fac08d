"""A disk that fills, wherever in the run it does: told, nothing half done, and mended by room."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from feedback.errors import ExitCode
from tests.kit.settings import environment, toml
from tests.spark_audit.run.scene import Scene
from tests.spark_audit.small import SMALL
from tests.spark_audit.stage.samples import DATE
from tests.stack.full_disk import on_small_disk

ROOT = Path(__file__).parents[3]
LIMIT_S = 280.0
MIB, KIB = 1 << 20, 1 << 10
REPORT = [
    *("carried.json", "in_doubt.csv", "lost.csv", "report.html"),
    *("resend.jsonl", "status_disagrees.csv", "summary.json"),
]
# One session of Spark each, and a dozen runs in the first.
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(300),
    pytest.mark.parametrize("journal_url", ["sqlite"], indirect=True),
]


def test_a_disk_that_fills_at_any_point_leaves_nothing_half_done_and_the_next_run_goes_right(
    scene: Scene, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    day = {
        "kafka": scene.servers.kafka,
        "redis": scene.servers.redis,
        "topic": scene.topic,
        "journal": scene.journal.url,
        "group": scene.journal.group,
        "disk": str(disk),
    }
    done = on_small_disk(
        [sys.executable, "-m", "tests.spark_audit.run.filling", json.dumps(day)],
        disk,
        size_bytes=4 * MIB,
        cwd=ROOT,
        env=environment(),
        timeout_s=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    *refused, right = map(json.loads, done.stdout.splitlines())
    assert (right["error"], right["report"], right["is_told"]) == (None, REPORT, True)
    assert [one["leftovers"] for one in (*refused, right) if one["leftovers"]] == []
    told = f"no space is left on the disk of {disk}/audit, or on that of Spark's temporary files"
    assert {one["error"] for one in refused} == {told}
    # A report may stand that had no room for its metrics beside it: the next run tells it.
    stands = [one for one in refused if one["report"]]
    assert all((one["report"], one["is_told"]) == (REPORT, False) for one in stands)
    # It filled in each part of the run.
    assert {tuple(one["finished"]) for one in refused if one not in stands} == {
        (),
        ("snapshot",),
        ("sifted", "snapshot"),
        ("judged", "sifted", "snapshot"),
        ("findings", "judged", "sifted", "snapshot"),
    }


def test_the_command_ends_with_3_and_one_sentence(scene: Scene, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    settings: dict[str, dict[str, object]] = {
        "kafka": {"bootstrap_servers": scene.servers.kafka, "group": scene.journal.group},
        "redis": {"url": scene.servers.redis},
        "journal": {"url": scene.journal.url},
        "audit": {"topics": [scene.topic], "output": str(disk), "spark_master": "local[2]"},
    }
    (tmp_path / "settings.toml").write_text(toml(settings))
    command = ("run", "--config", str(tmp_path / "settings.toml"), "--date", DATE)
    ended = on_small_disk(
        [sys.executable, "-m", "spark_audit", *command],
        disk,
        size_bytes=32 * KIB,
        cwd=ROOT,
        env=environment(ONCEWARD_AUDIT__SPARK_CONF=json.dumps(SMALL)),
        timeout_s=LIMIT_S,
    )
    assert ended.returncode == ExitCode.NOT_AVAILABLE, ended.stderr
    (error,) = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    assert error.startswith(f"error: no space is left on the disk of {disk}")
    assert ended.stdout == ""
    # Nor a stack of Spark's for each task that failed.
    assert "\tat " not in ended.stderr
