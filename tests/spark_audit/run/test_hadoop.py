"""A whole audit whose output lies where Hadoop leads: in a bucket, and on its local file system."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from feedback.clock import epoch_ms
from feedback.errors import ExitCode
from feedback.settings.settings import Settings
from spark_audit.output.location import Location, output_of, uri_of
from spark_audit.output.outputs import settled
from spark_audit.output.paths import DayPaths
from spark_audit.run import commands, opening
from spark_audit.stage.snapshot import Snapshot
from tests.spark_audit.hadoop import runs_of
from tests.spark_audit.jars import S3A, audit_jars
from tests.spark_audit.run.scene import IDS, LOST, Scene
from tests.spark_audit.run.test_chain import NOON, _lose
from tests.spark_audit.stage.samples import DATE, DAY_MS

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.parametrize("journal_url", ["sqlite"], indirect=True),
]
TODAY = f"{datetime.fromtimestamp(epoch_ms() / 1000, UTC):%Y-%m-%d}"

Command = Callable[..., Result]


@pytest.fixture
def output(scene: Scene, hadoop_output: str) -> Location:
    """Return the output folder of the commands, which is empty."""
    return output_of(hadoop_output, scene.spark)


@pytest.fixture
def command(
    scene: Scene, hadoop_output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Command]:
    """Yield what runs `onceward-audit`, in the session that is there already."""
    monkeypatch.setattr(opening, "open_session", lambda **_: scene.spark)
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    config = tmp_path / "settings.toml"
    config.write_text(_toml(scene.settings(), hadoop_output))

    def run(name: str, *arguments: str) -> Result:
        return CliRunner().invoke(commands.cli, [name, "--config", str(config), *arguments])

    yield run


def _toml(settings: Settings, output: str) -> str:
    jars = audit_jars(profile=S3A)[0].parent
    return f"""
[kafka]
bootstrap_servers = "{settings.kafka.bootstrap_servers}"
group = "{settings.kafka.group}"
[redis]
url = "{settings.redis.url}"
[journal]
url = "{settings.journal.url}"
[audit]
topics = {json.dumps(settings.audit.topics)}
output = "{output}"
jars = "{jars}"
fail_on = "lost>0"
"""


def _run(command: Command, *arguments: str, date: str = DATE) -> dict[str, Any]:
    """Return the summary of a run that found what was lost."""
    ended = command("run", "--date", date, "--json", *arguments)
    assert ended.exit_code == ExitCode.BAD_ANSWER, ended.output
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def _lost(scene: Scene, output: Location, date: str) -> list[str]:
    folder = uri_of(settled(DayPaths(output, date).findings))
    rows = scene.spark.read.parquet(folder).where("kind = 'lost'").collect()
    return sorted(row["request_id"] for row in rows)


def _to_resend(output: Location, date: str) -> list[str]:
    file = settled(DayPaths(output, date).report) / "resend.jsonl"
    lines = [json.loads(one) for one in file.read_text().splitlines()]
    return sorted(one["request_id"] for one in lines if "request_id" in one)


# Three whole audits; the steps have tests in `output/` on the same two.
@pytest.mark.long
@pytest.mark.parametrize("hadoop_output", ["s3a", "local"], indirect=True)
def test_a_day_and_the_next_by_the_commands(
    scene: Scene, command: Command, output: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _run(command)
    assert first["offsets"]["judged"] == len(IDS)
    assert (_lost(scene, output, DATE), _to_resend(output, DATE)) == ([LOST], [LOST])
    snapshot = settled(output / "snapshot" / f"date={DATE}")
    _lose(scene, {"late": NOON, "of-today": NOON + DAY_MS // 2 + 1})
    second = _run(command, date=TODAY)
    assert second["offsets"]["judged"] == 2
    assert _lost(scene, output, TODAY) == ["late", "of-today"]
    again = _run(command, "--again")
    assert (again["counts"], again["offsets"]) == (first["counts"], first["offsets"])
    assert settled(output / "snapshot" / f"date={DATE}") != snapshot

    told = command("report", "--date", DATE, "--json")
    assert (told.exit_code, json.loads(told.stdout)) == (ExitCode.BAD_ANSWER, again)
    # Days are counted from today.
    monkeypatch.setattr(commands, "epoch_ms", lambda: epoch_ms() + 10**12)
    pruned = command("prune", "--keep-days", "1", "--json")
    assert [one["date"] for one in json.loads(pruned.stdout)["days"]] == [DATE], pruned.output
    assert Snapshot.of(output, DATE).is_pruned
    monkeypatch.undo()
    assert json.loads(DayPaths(output, DATE).summary.read_text()) == again
    # One run of each folder, and nothing that a run should have taken away again.
    days = [day for kind in output.iterdir() if kind.is_dir() for day in kind.iterdir()]
    assert {len(runs_of(day)) for day in days} <= {0, 1}
    assert list(output.glob(".lock*")) == []
