"""What an audit has said of a day."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from feedback.errors import ExitCode
from spark_audit.run.audit import AuditResult


@dataclass(frozen=True, slots=True)
class Judged:
    """The answer of an audit.

    Attributes:
        found: the requests of each finding, sorted.
    """

    exit_code: ExitCode
    requests: int
    pending: int
    found: dict[str, list[str]]

    @classmethod
    def of(cls, spark: SparkSession, outcome: AuditResult, findings: Path) -> Judged:
        """Read what was written down."""
        found: dict[str, list[str]] = defaultdict(list)
        for file in findings.glob("kind=*/*.parquet"):
            ids = spark.read.parquet(str(file)).select("request_id").collect()
            found[file.parent.name.removeprefix("kind=")] += [row[0] for row in ids]
        counts = outcome.summary["counts"]
        by_kind = {kind: sorted(ids) for kind, ids in found.items()}
        return cls(outcome.exit_code, counts["requests"], counts["pending"], by_kind)
