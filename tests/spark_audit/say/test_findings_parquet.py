"""Findings as Parquet by kind."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_audit.findings import Finding, FindingRow
from spark_audit.say.findings_parquet import (
    counted_by_topic,
    first_of_each,
    read_findings,
    to_resend,
    urgent,
    write_findings,
)
from tests.spark_audit.say.samples import judged_frame, judged_request

HOSTILE = "<script>alert(1)</script>'\"\\`$;=1+1"


def _written(
    spark: SparkSession,
    folder: Path,
    rows: Sequence[dict[str, Any]],
    disagreeing: Sequence[str] = (),
) -> Any:
    judged = judged_frame(spark, rows)
    write_findings(judged, folder, disagreeing=disagreeing)
    return read_findings(spark, folder, judged.schema)


def _ids(first: dict[Finding, list[FindingRow]]) -> dict[str, list[str]]:
    return {kind.value: [one.request_id for one in rows] for kind, rows in first.items()}


def test_a_request_lies_under_each_of_its_findings(spark: SparkSession, tmp_path: Path) -> None:
    rows = [
        judged_request("fine"),
        judged_request("b", Finding.LOST, Finding.RESENT),
        judged_request(HOSTILE, Finding.RESENT, code=HOSTILE),
        judged_request("a", Finding.RESENT),
    ]
    findings = _written(spark, tmp_path / "date=2026-11-20", rows)
    assert _ids(first_of_each(findings)) == {"lost": ["b"], "resent": [HOSTILE, "a", "b"]}
    (hostile,) = [one for one in first_of_each(findings)[Finding.RESENT] if one.code]
    assert hostile == FindingRow(**{name: rows[2][name] for name in FindingRow._fields})


def test_a_kind_is_one_file_sorted_by_id_with_the_columns_of_the_judged(
    spark: SparkSession, tmp_path: Path
) -> None:
    names = [f"r{number:03}" for number in range(50)]
    rows = [judged_request(name, Finding.LATE) for name in names[25:] + names[:25]]
    judged = judged_frame(spark, rows).repartition(4)
    folder = tmp_path / "date=2026-11-20"
    write_findings(judged, folder)
    (file,) = (folder / "kind=late").glob("*.parquet")
    found = spark.read.parquet(str(file))
    assert found.columns == judged.columns
    assert [row.request_id for row in found.collect()] == names


def test_a_request_whose_status_disagrees_is_found_as_well(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [judged_request("fine"), judged_request("told"), judged_request("lost", Finding.LOST)]
    findings = _written(spark, tmp_path / "a", rows, disagreeing=["told", "lost", "unknown"])
    assert _ids(first_of_each(findings)) == {
        "lost": ["lost"],
        "status_disagrees": ["lost", "told"],
    }


def test_a_day_without_findings_can_be_read(spark: SparkSession, tmp_path: Path) -> None:
    findings = _written(spark, tmp_path / "a", [judged_request("fine")])
    assert first_of_each(findings) == {}
    assert list(urgent(findings)) == []


def test_only_the_first_of_many_are_shown(spark: SparkSession, tmp_path: Path) -> None:
    rows = [judged_request(f"r{number}", Finding.LATE) for number in range(9, 0, -1)]
    rows += [judged_request("only", Finding.STUCK)]
    first = first_of_each(_written(spark, tmp_path / "a", rows), most=3)
    assert _ids(first) == {"late": ["r1", "r2", "r3"], "stuck": ["only"]}


def test_the_same_day_again_gives_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    rows = [judged_request(f"r{number}", Finding.LATE) for number in range(20)]
    once = _written(spark, tmp_path / "a", rows).orderBy("kind", "request_id").collect()
    again = _written(spark, tmp_path / "b", rows[::-1]).orderBy("kind", "request_id").collect()
    assert once == again


def test_only_lost_requests_that_are_safe_to_resend_are_offered_in_order_of_sending(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [
        judged_request("late", Finding.LATE, can_resend=True),
        judged_request("unsafe", Finding.LOST, can_resend=False),
        judged_request("c", Finding.LOST, can_resend=True, partition=1, offset=10),
        judged_request("b", Finding.LOST, can_resend=True, partition=1, offset=2**31 + 9),
        judged_request("a", Finding.LOST, can_resend=True, partition=1, offset=9),
        judged_request("z", Finding.LOST, can_resend=True, partition=0, offset=99),
    ]
    findings = _written(spark, tmp_path / "a", rows)
    assert [one.request_id for one in to_resend(findings)] == ["z", "a", "c", "b"]


def test_what_needs_a_person_comes_by_finding_and_id(spark: SparkSession, tmp_path: Path) -> None:
    rows = [judged_request(one, Finding.IN_DOUBT, Finding.LATE) for one in ("b", "c", "a")]
    rows.append(judged_request("z", Finding.ORPHAN))
    findings = _written(spark, tmp_path / "a", rows, disagreeing=["z"])
    assert [(kind.value, one.request_id) for kind, one in urgent(findings)] == [
        *(("in_doubt", one) for one in ("a", "b", "c")),
        ("orphan", "z"),
    ]
    assert findings.where(F.col("kind") == "late").count() == 3


def test_findings_are_counted_by_topic(spark: SparkSession, tmp_path: Path) -> None:
    rows = [judged_request(one, Finding.LOST, Finding.LATE) for one in ("a", "b")]
    rows.append(judged_request("c", Finding.LATE, topic="other"))
    rows.append(judged_request("d", Finding.ORPHAN, topic=None))
    assert counted_by_topic(_written(spark, tmp_path / "a", rows)) == {
        None: {Finding.ORPHAN: 1},
        "other": {Finding.LATE: 1},
        "payments": {Finding.LATE: 2, Finding.LOST: 2},
    }


def test_the_oldest_are_shown_first(spark: SparkSession, tmp_path: Path) -> None:
    ages = {"a": 3_000, "b": None, "c": 1_000, "d": 2_000}
    rows = [judged_request(name, Finding.LATE, first_at=at) for name, at in ages.items()]
    first = first_of_each(_written(spark, tmp_path / "a", rows), most=3)
    assert _ids(first) == {"late": ["c", "d", "a"]}
