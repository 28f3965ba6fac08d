"""Whose statuses are compared with the journal: all findings, all in doubt, and a sample."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_audit.findings import REQUEST_FINDINGS, Finding
from spark_audit.judge.judge_rules import FINAL
from spark_audit.judge.status_check import ToldRequest

# A day of nothing but findings: more would keep Redis busy for minutes.
MOST_FINDINGS = 100_000


def requests_to_compare(judged: DataFrame, *, most: int) -> Iterator[ToldRequest]:
    """Return the requests by id.

    Args:
        most: the size of the sample of those without a finding; the same ones each time.
    """
    # A request that was only sent again, and one that was refused, have no status of their own.
    names = [
        one.value for one in REQUEST_FINDINGS if one not in (Finding.RESENT, Finding.MALFORMED)
    ]
    has_finding = F.greatest(*(F.coalesce(F.col(name), F.lit(False)) for name in names))
    found = judged.where(has_finding).orderBy("request_id").limit(MOST_FINDINGS)
    sound = judged.where(~has_finding & F.col("state").isNotNull())
    sample = sound.orderBy(F.xxhash64("request_id"), "request_id").limit(most)
    ended_at = F.when(F.col("state").isin(*FINAL), F.col("finished_at"))
    rows = (
        found.unionByName(sample)
        .select("request_id", "state", "generation", ended_at)
        .orderBy("request_id")
    )
    return (ToldRequest(*row) for row in rows.toLocalIterator())
