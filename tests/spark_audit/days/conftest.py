"""Days that a real worker has worked, with failures and their repair, and the audit of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from feedback.clock import epoch_ms
from feedback.settings.settings import load
from spark_audit.judge.day_verdict import parse_fail_on
from spark_audit.output.paths import DayPaths
from spark_audit.output.run_lock import alone
from spark_audit.run.audit import audit_with
from spark_audit.stage.window import window_of
from tests.consumer.dlq.redrive.conftest import make_scene as make_scene
from tests.consumer.features.dead_letters.conftest import make_box as make_box
from tests.consumer.stage import Stage
from tests.spark_audit.days.judged import Judged

Audit = Callable[..., Judged]


@pytest.fixture
def audit(spark: SparkSession, tmp_path: Path) -> Audit:
    """Return a function that audits all topics of a stage on a date, which is today by default."""

    def run(stage: Stage, date: str = "") -> Judged:
        output = tmp_path / "audit"
        section = {"topics": list(stage.topics.values()), "output": str(output), "grace_s": 0.5}
        settings = load(stage.config(audit=section))
        date = date or f"{datetime.now(UTC):%Y-%m-%d}"
        window = window_of(date, now_ms=epoch_ms())
        with alone(output):
            outcome = audit_with(spark, settings, window, parse_fail_on(settings.audit.fail_on))
        return Judged.of(spark, outcome, DayPaths(output, date).findings)

    return run
