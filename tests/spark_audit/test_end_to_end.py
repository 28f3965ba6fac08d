"""The audit of a real worker's day: what is planted by hand in journal and Redis is named."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from feedback.errors import ExitCode
from feedback.status import State
from tests.consumer.stage import Stage, open_stage
from tests.spark_audit.command import run_audit_command
from tests.spark_audit.falsified import await_deadlines, lose, run_twice
from tests.spark_audit.jars import audit_jars
from tests.spark_audit.small import SMALL
from tests.stack import Servers

# Short enough to have passed when the audit begins. Where the machine is too slow to end in it, the
# request is sent again under another name, with more time: nothing hangs on what is enough here.
DEADLINE_S = 6.0
LONGEST_DEADLINE_S = 60.0
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
    config = stage.config(audit=section)
    # Compiled, as it is for a user, are the judgement (`judge/test_day.py`) and a whole audit
    # (`test_cluster.py`).
    conf = json.dumps(SMALL)
    return run_audit_command(
        config, "--json", "--date", date, *arguments, ONCEWARD_AUDIT__SPARK_CONF=conf
    )


def _found(output: Path) -> dict[str, list[str]]:
    rows = duckdb.sql(
        f"SELECT kind, list(request_id ORDER BY request_id) "
        f"FROM read_parquet('{output}/findings/*/*/*.parquet', hive_partitioning = true) "
        "GROUP BY kind"
    ).fetchall()
    return dict(rows)


def _succeeded(stage: Stage, name: str) -> tuple[str, int]:
    """Return the name of a request that has succeeded, and how many expired before it."""
    deadline_s, expired = DEADLINE_S, 0
    while deadline_s <= LONGEST_DEADLINE_S:
        tried = f"{name}-{expired}"
        topic = stage.topics["work"]
        sent = stage.client.send({}, topic=topic, request_id=tried, deadline_s=deadline_s)
        if (ended := sent.wait(2 * LONGEST_DEADLINE_S).state) is State.SUCCEEDED:
            return tried, expired
        assert ended is State.EXPIRED, (tried, ended)
        deadline_s, expired = 2 * deadline_s, expired + 1
    raise AssertionError(f"{name} did not succeed within {deadline_s / 2:g} s")


def test_what_was_planted_is_named_and_nothing_else(stage: Stage, tmp_path: Path) -> None:
    worker = stage.start()
    ended = [_succeeded(stage, f"r-{number}") for number in range(12)]
    worker.stop()
    names = [name for name, _ in ended]
    await_deadlines(stage, names)

    lost, doubled, untold = names[3], names[5], names[7]
    lose(stage, lost)
    run_twice(stage, doubled)
    store = stage.client.store
    store.redis.hset(store.request_key(untold), "status", "FAILED")

    audited = _audited(stage, tmp_path / "audit")
    assert audited.returncode == ExitCode.BAD_ANSWER, audited.stderr
    assert _found(tmp_path / "audit") == {
        "lost": [lost],
        "ran_twice": [doubled],
        # The lost one was told its success, of which the journal knows nothing.
        "status_disagrees": [lost, untold],
    }
    summary: dict[str, Any] = json.loads(audited.stdout)
    assert [one["finding"] for one in summary["failed_on"]] == ["lost", "ran_twice"]
    assert summary["counts"]["requests"] == len(names) + sum(expired for _, expired in ended)


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
