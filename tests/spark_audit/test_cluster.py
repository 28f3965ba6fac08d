"""The same audit on a real standalone cluster of two workers, shipped as one file."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlalchemy import make_url

from feedback.errors import ExitCode
from feedback.status import State
from spark_audit.run.package import write_package
from tests.consumer.stage import Stage, open_stage
from tests.kit.settings import environment
from tests.spark_audit.command import run_audit_command
from tests.spark_audit.falsified import await_deadlines, lose, run_twice
from tests.spark_audit.jars import audit_jars
from tests.spark_audit.small import COMPILED, SMALL
from tests.spark_audit.standalone import EXECUTOR_MIB, SPARK, Master, standalone
from tests.stack import Servers

AUDIT_LIMIT_S = 240.0
DEADLINE_S = 3.0
GRACE_S = 0.5
WORKERS = 2
# The server asks for none; whatever is shown of its address would show it.
PASSWORD = "hush-7c41"
# Beside the limit of one test: two sessions of Spark, a cluster, and servers.
pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Master]:
    """Yield a master with two workers of one core each."""
    with standalone(WORKERS) as master:
        yield master


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the audit as one file."""
    target = tmp_path_factory.mktemp("packed") / "onceward-audit.py"
    write_package(target)
    return target


@pytest.fixture
def stage(servers: Servers, postgres_url: str, tmp_path: Path) -> Iterator[Stage]:
    """Yield a group with a journal that every machine can reach."""
    with open_stage(
        servers=servers,
        journal_url=postgres_url,
        folder=tmp_path,
        client={"deadline_s": DEADLINE_S},
    ) as made:
        yield made


def _config(stage: Stage, output: Path, **changes: Any) -> Path:
    audit = {"topics": [stage.topics["work"]], "output": str(output), "grace_s": GRACE_S}
    url = make_url(stage.journal_url).set(password=PASSWORD)
    journal = {"url": url.render_as_string(hide_password=False)}
    return stage.config(audit=audit | changes, journal=journal)


def _submitted(
    cluster: Master, packed: Path, *arguments: str, folder: Path, **conf: str
) -> subprocess.CompletedProcess[str]:
    # What Spark does to be fast costs small days more than it saves.
    given = SMALL | {"spark.sql.shuffle.partitions": str(WORKERS)} | conf
    given |= {"spark.executor.extraJavaOptions": SMALL["spark.driver.extraJavaOptions"]}
    options = [word for name, value in given.items() for word in ("--conf", f"{name}={value}")]
    jars = audit_jars()[0].parent / "*.jar"
    return subprocess.run(
        (
            *(str(SPARK / "bin" / "spark-submit"), "--master", cluster.address),
            *("--jars", str(jars), "--driver-memory", "512m"),
            *("--executor-memory", f"{EXECUTOR_MIB}m", *options, str(packed), *arguments),
        ),
        cwd=folder,
        env=environment(PYSPARK_DRIVER_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1"),
        capture_output=True,
        text=True,
        timeout=AUDIT_LIMIT_S,
    )


def _plant(stage: Stage) -> None:
    """Let a worker run a few requests and falsify the journal: one lost, one that ran twice."""
    names = [f"r-{number}" for number in range(12)]
    worker = stage.start()
    for name in names:
        stage.client.send({}, topic=stage.topics["work"], request_id=name)
    for name in names:
        assert stage.final(name).state is State.SUCCEEDED
    worker.stop()
    await_deadlines(stage, names)
    lose(stage, "r-3")
    run_twice(stage, "r-5")


def _findings(output: Path) -> list[dict[str, Any]]:
    files = f"{output}/findings/*/*/*.parquet"
    found = duckdb.sql(
        f"SELECT * FROM read_parquet('{files}', hive_partitioning = true) ORDER BY ALL"
    )
    return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]


def _events(folder: Path) -> tuple[str, list[dict[str, Any]]]:
    """Return Spark's own log of what ran, as it is and read."""
    (log,) = folder.rglob("events_*")
    text = log.read_text()
    return text, [json.loads(line) for line in text.splitlines()]


def test_a_cluster_says_of_a_day_what_a_laptop_says_of_it(
    cluster: Master, packed: Path, stage: Stage, tmp_path: Path
) -> None:
    began = datetime.now(UTC)
    _plant(stage)
    window = ("--since", began.isoformat(), "--until", datetime.now(UTC).isoformat())
    day = ("--date", f"{began:%Y-%m-%d}", *window)
    here, there, events = (tmp_path / name for name in ("here", "there", "events"))
    events.mkdir()
    submitted = _submitted(
        cluster,
        packed,
        *("run", *day, "--config", str(_config(stage, there))),
        folder=tmp_path,
        **{
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": f"file://{events}",
            # As on YARN, where a path without a scheme is no file.
            "spark.hadoop.fs.defaultFS": "hdfs://nowhere.invalid",
        },
    )
    assert submitted.returncode == ExitCode.BAD_ANSWER, submitted.stdout + submitted.stderr
    shutil.copytree(there / "snapshot", here / "snapshot")
    config = _config(stage, here, spark_master="local[2]")
    # Compiled, as it is for a user; the cluster's expressions are interpreted.
    local = run_audit_command(config, *day, ONCEWARD_AUDIT__SPARK_CONF=json.dumps(COMPILED))
    assert local.returncode == ExitCode.BAD_ANSWER, local.stderr
    found = _findings(there)
    assert found == _findings(here)
    assert sorted((row["kind"], row["request_id"]) for row in found) == [
        ("lost", "r-3"),
        ("ran_twice", "r-5"),
        ("status_disagrees", "r-3"),
    ]
    log, told = _events(events)
    ended = [one for one in told if one["Event"] == "SparkListenerTaskEnd"]
    assert {one["Task Info"]["Executor ID"] for one in ended} == {"0", "1"}
    stages = [one["Stage Info"] for one in told if one["Event"] == "SparkListenerStageSubmitted"]
    # No Python beside an executor: a machine of the cluster need not have any.
    assert "PythonRDD" not in {rdd["Name"] for one in stages for rdd in one["RDD Info"]}
    assert PASSWORD not in log + submitted.stdout + submitted.stderr


def test_a_folder_that_each_machine_has_for_itself_is_told_before_anything_is_read(
    cluster: Master, packed: Path, stage: Stage, tmp_path: Path
) -> None:
    # The same name, and another folder in each process.
    config = _config(stage, Path("/proc/self/cwd/audit"))
    submitted = _submitted(cluster, packed, "run", "--config", str(config), folder=tmp_path)
    assert submitted.returncode == ExitCode.NOT_AVAILABLE, submitted.stdout + submitted.stderr
    (error,) = [line for line in submitted.stdout.splitlines() if line.startswith("error: ")]
    assert "is not the same folder on all machines" in error
    assert [one.name for one in (tmp_path / "audit").iterdir()] == [".lock"]
