"""The audit of a day with failures: every one has its dead letter, and every letter its failure."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from feedback.errors import ExitCode
from feedback.status import State
from tests.consumer.dead_letters.conftest import MakeBox
from tests.consumer.foreign import identity
from tests.consumer.running import ROOT, environment
from tests.consumer.stage import Stage
from tests.spark_audit.conftest import SMALL
from tests.spark_audit.jars import audit_jars

AUDIT_LIMIT_S = 240.0
pytestmark = pytest.mark.timeout(600)


def audited(stage: Stage, output: Path) -> subprocess.CompletedProcess[str]:
    """Run the audit of all topics of a stage."""
    section = {
        "topics": list(stage.topics.values()),
        "output": str(output),
        "grace_s": 0.5,
        "spark_master": "local[2]",
    }
    command = (sys.executable, "-m", "spark_audit", "run", "--json")
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    return subprocess.run(
        (*command, "--date", date, "--config", str(stage.config(audit=section))),
        cwd=ROOT,
        env=environment(ONCEWARD_AUDIT__SPARK_CONF=json.dumps(SMALL)),
        capture_output=True,
        text=True,
        timeout=AUDIT_LIMIT_S,
    )


def found(output: Path) -> dict[str, list[str]]:
    """Return the requests of each finding."""
    files = f"{output}/findings/*/*/*.parquet"
    query = (
        "SELECT kind, list(request_id ORDER BY request_id) "
        f"FROM read_parquet('{files}', hive_partitioning = true) GROUP BY kind"
    )
    return dict(duckdb.sql(query).fetchall())


def test_the_audit_misses_no_letter_and_takes_none_for_too_much(
    make_box: MakeBox, tmp_path: Path
) -> None:
    audit_jars()
    box = make_box("work", "refusing")
    stage = box.stage
    worker = stage.start()
    topic = stage.topics["work"]
    good = stage.client.send({"answer": 1}, topic=topic)
    assert good.wait(30).state is State.SUCCEEDED
    rejected = stage.client.send({"do": "reject"}, topic=topic).request_id
    refused = stage.produce(b"{}", handler="refusing").coordinates_id
    malformed = stage.produce(b"{}", headers=[("onceward-attempt", b"x")]).coordinates_id
    taken = stage.produce(b"another", headers=identity(good.request_id, 2)).coordinates_id
    box.closed([rejected, refused, malformed, taken])
    assert worker.stop() == 0
    assert box.counted() == dict.fromkeys([rejected, malformed, taken], 1)
    ended = audited(stage, tmp_path / "audit")
    assert ended.returncode == ExitCode.FINE, ended.stderr
    assert json.loads(ended.stdout)["counts"]["requests"] == 5
    assert found(tmp_path / "audit") == {
        "malformed": [malformed],
        "payload_mismatch": [good.request_id],
        "resent": [good.request_id],
    }
