"""The audit of a real worker's day: what is planted by hand in journal and Redis is named."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from feedback.errors import ExitCode
from feedback.status import State
from tests.consumer.running import environment
from tests.consumer.stage import Stage, open_stage
from tests.eventually import eventually
from tests.spark_audit.conftest import SMALL
from tests.spark_audit.jars import audit_jars
from tests.stack import Servers

ROOT = Path(__file__).parents[2]
AUDIT_LIMIT_S = 240.0
# Long enough to end in, short enough to have passed when the audit begins.
DEADLINE_S = 3.0
GRACE_S = 0.5
# Beside the limit of one test: a session of Spark, its first queries, and servers.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(params=["sqlite", "postgres"])
def stage(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Iterator[Stage]:
    """Yield a group with a worker."""
    is_postgres = request.param == "postgres"
    url = request.getfixturevalue("postgres_url") if is_postgres else f"sqlite:///{tmp_path}/j.db"
    audit_jars()
    with ExitStack() as ends:
        made = ends.enter_context(
            open_stage(
                servers=servers,
                journal_url=url,
                folder=tmp_path,
                client={"deadline_s": DEADLINE_S},
            )
        )
        yield made


def _audited(stage: Stage, output: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    section = {
        "topics": [stage.topics["work"]],
        "output": str(output),
        "grace_s": GRACE_S,
        "spark_master": "local[2]",
    }
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    return subprocess.run(
        (
            *(sys.executable, "-m", "spark_audit", "run", "--json", "--date", date),
            *("--config", str(stage.config(audit=section)), *arguments),
        ),
        cwd=ROOT,
        env=environment(ONCEWARD_AUDIT__SPARK_CONF=json.dumps(SMALL)),
        capture_output=True,
        text=True,
        timeout=AUDIT_LIMIT_S,
    )


def _found(output: Path) -> dict[str, list[str]]:
    rows = duckdb.sql(
        f"SELECT kind, list(request_id ORDER BY request_id) "
        f"FROM read_parquet('{output}/findings/*/*/*.parquet', hive_partitioning = true) "
        "GROUP BY kind"
    ).fetchall()
    return dict(rows)


def _past_their_deadline(stage: Stage, ids: list[str]) -> Callable[[], bool]:
    def is_past() -> bool:
        now_ms = datetime.now(UTC).timestamp() * 1000
        rows = [stage.row(one) for one in ids]
        return all(row is not None and row["deadline_at"] + 1000 < now_ms for row in rows)

    return is_past


def test_what_was_planted_is_named_and_nothing_else(stage: Stage, tmp_path: Path) -> None:
    names = [f"r-{number}" for number in range(12)]
    topic = stage.topics["work"]
    worker = stage.start()
    for name in names:
        assert stage.client.send({}, topic=topic, request_id=name).wait(20).state is State.SUCCEEDED
    worker.stop()
    eventually(_past_their_deadline(stage, names), timeout_s=30)

    stage.execute("DELETE FROM onceward_request WHERE request_id = 'r-3'")
    stage.execute(
        'INSERT INTO onceward_run ("group", request_id, generation, attempt, owner, topic, '
        '"partition", "offset", claimed_at, effect_at, ended_at, outcome, by_whom) '
        'SELECT "group", request_id, generation - 1, attempt, owner, topic, "partition", '
        "\"offset\", claimed_at, effect_at, finished_at, 'SUCCEEDED', owner "
        "FROM onceward_request WHERE request_id = 'r-5'"
    )
    store = stage.client.store
    store.redis.hset(store.request_key("r-7"), "status", "FAILED")

    audited = _audited(stage, tmp_path / "audit")
    assert audited.returncode == ExitCode.BAD_ANSWER, audited.stderr
    assert _found(tmp_path / "audit") == {
        "lost": ["r-3"],
        "ran_twice": ["r-5"],
        # r-3 was told its success, of which the journal knows nothing.
        "status_disagrees": ["r-3", "r-7"],
    }
    summary: dict[str, Any] = json.loads(audited.stdout)
    assert [one["finding"] for one in summary["failed_on"]] == ["lost", "ran_twice"]
    assert summary["counts"]["requests"] == len(names)


@pytest.mark.parametrize("stage", ["sqlite"], indirect=True)
def test_a_journal_that_is_not_there_is_one_sentence_and_leaves_nothing_that_looks_finished(
    stage: Stage, tmp_path: Path
) -> None:
    stage.produce(b"{}")
    stage.execute("DROP TABLE onceward_run")
    ended = _audited(stage, tmp_path / "audit")
    assert ended.returncode == ExitCode.NOT_AVAILABLE, ended.stderr
    (error,) = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    assert "journal" in error
    assert not list((tmp_path / "audit").glob("snapshot/date=*"))
    assert not (tmp_path / "audit" / "reports").exists()
