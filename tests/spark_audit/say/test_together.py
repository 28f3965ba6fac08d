"""A day said as a whole: from judged requests to every file, twice the same."""

import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from feedback.errors import NotAvailable
from spark_audit.findings import Finding
from spark_audit.judge.day_verdict import parse_fail_on
from spark_audit.judge.figures import figures_of
from spark_audit.judge.status_check import Disagreement
from spark_audit.output.outputs import replacing, write_text
from spark_audit.output.paths import DayPaths
from spark_audit.say.cards import CardSources
from spark_audit.say.findings_csv import write_disagreements, write_findings_csv
from spark_audit.say.findings_parquet import (
    first_of_each,
    read_findings,
    to_resend,
    urgent,
    write_findings,
)
from spark_audit.say.history import read_history, strip_of
from spark_audit.say.page import render
from spark_audit.say.resend_lines import LostRecord, Payload, write_resend
from spark_audit.say.summary import as_text, summarise
from tests.spark_audit.say.reading import read
from tests.spark_audit.say.samples import DAY_MS, judged_frame, judged_request, manifest
from tests.spark_audit.say.samples import summary as sample_summary

FILES = [
    *("in_doubt.csv", "lost.csv", "report.html", "resend.jsonl"),
    *("status_disagrees.csv", "summary.json"),
]
DISAGREEMENTS = [Disagreement("r3", "SUCCEEDED", "FAILED")]


def _day() -> list[dict[str, Any]]:
    rows = [judged_request(f"r{number}") for number in range(40)]
    rows[5] = judged_request("r5", Finding.LOST, state=None, can_resend=True, offset=50)
    rows[6] = judged_request("r6", Finding.LOST, state=None, can_resend=True, offset=40)
    rows[7] = judged_request("r7", Finding.IN_DOUBT, Finding.LATE, state="IN_DOUBT")
    return rows


def _read(lost: Sequence[LostRecord]) -> list[Payload]:
    return [(None, one.request_id.encode(), ()) for one in lost]


def _say(spark: SparkSession, rows: Sequence[dict[str, Any]], places: DayPaths[Path]) -> None:
    judged, limits = judged_frame(spark, rows), manifest()
    output = places.output
    figures = figures_of(judged, since_ms=limits.since_ms, until_ms=limits.until_ms)
    with replacing(places.findings) as part:
        write_findings(judged, part, disagreeing=[one.request_id for one in DISAGREEMENTS])
    findings = read_findings(spark, places.findings, judged.schema)
    with replacing(places.report) as part:
        resend = write_resend(
            to_resend(findings),
            _read,
            part / "resend.jsonl",
            begun=lambda names: [False] * len(names),
        )
        write_findings_csv(urgent(findings), part)
        write_disagreements(DISAGREEMENTS, part / "status_disagrees.csv")
        summary = summarise(
            limits,
            figures,
            disagreements=DISAGREEMENTS,
            conditions=parse_fail_on("lost>0"),
            resend=resend,
            history=read_history(places.output, limits.date, length_ms=DAY_MS),
        )
        write_text(part / "summary.json", as_text(summary))
        files = [one.name for one in part.iterdir()]
        history = read_history(places.output, limits.date, length_ms=DAY_MS)
        days = strip_of(
            history.recent, limits.date, has_page=lambda one: DayPaths(output, one).page.exists()
        )
        page = render(summary, CardSources(first_of_each(findings), {}, files, days))
        write_text(part / "report.html", page)


def _files(folder: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in sorted(folder.iterdir())}


def test_a_day_leaves_its_files_and_the_same_day_again_leaves_the_same(
    spark: SparkSession, tmp_path: Path
) -> None:
    places = DayPaths(tmp_path, "2026-11-20")
    _say(spark, _day(), places)
    once = _files(places.report)
    _say(spark, _day()[::-1], places)
    assert list(once) == FILES
    assert _files(places.report) == once
    assert [line[16:18] for line in once["resend.jsonl"].splitlines()] == [b"r6", b"r5"]
    assert stat.S_IMODE((places.report / "resend.jsonl").stat().st_mode) == 0o600
    kinds = sorted(one.name for one in places.findings.glob("kind=*"))
    assert kinds == ["kind=in_doubt", "kind=late", "kind=lost", "kind=status_disagrees"]


def test_each_link_of_the_page_leads_to_something_that_is_there(
    spark: SparkSession, tmp_path: Path
) -> None:
    before = DayPaths(tmp_path, "2026-11-19")
    before.report.mkdir(parents=True)
    before.summary.write_text(as_text(sample_summary({Finding.LOST: 2}, date=before.date)))
    before.page.write_text("yesterday's")
    places = DayPaths(tmp_path, "2026-11-20")
    _say(spark, _day(), places)
    page = read(places.page.read_text())
    hrefs = [one.attributes["href"] for one in page.all("a")]
    assert "lost.csv" in hrefs
    assert "../date=2026-11-19/report.html" in hrefs
    ids = {one.attributes.get("id") for one in page.all()}
    for href in hrefs:
        assert (href.startswith("#") and href[1:] in ids) or (places.report / href).exists(), href


def test_a_day_that_cannot_be_said_leaves_no_report(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "findings").write_text("a file where a folder should be")
    places = DayPaths(tmp_path, "2026-11-20")
    with pytest.raises(NotAvailable, match="cannot be written"):
        _say(spark, _day(), places)
    assert not places.report.exists()
