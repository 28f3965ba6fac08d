"""The days of the audit: a summary that nobody can read is no good day, and makes no page fail."""

import json
from datetime import date, timedelta
from pathlib import Path

import pytest

from consumer.console.audit_days import DAYS, AuditDay, audit_days, last_judged, report_file
from feedback.errors import NotAvailable
from feedback.settings.sections import AuditSection

TODAY = date(2026, 11, 29)


def judge(folder: Path, text: str, *, days_ago: int = 0) -> None:
    """Write a day's summary with this text."""
    reports = folder / "reports" / f"date={TODAY - timedelta(days=days_ago)}"
    reports.mkdir(parents=True)
    (reports / "summary.json").write_text(text)


def days_of(folder: Path) -> list[AuditDay]:
    """Return the days of a folder."""
    return audit_days(AuditSection(output=str(folder)), today=TODAY)


def day_of(folder: Path, text: str) -> AuditDay:
    """Return today, whose summary has this text."""
    judge(folder, text)
    return days_of(folder)[0]


def summary(
    counts: str = '{"requests": 3, "findings": {}}', unseen: str = "[]", verdict: str = "good"
) -> str:
    """Return a summary of a day with these parts."""
    return f'{{"verdict": "{verdict}", "counts": {counts}, "unseen": {unseen}}}'


def test_the_last_day_that_was_judged_is_found_however_old_it_is(tmp_path: Path) -> None:
    judge(tmp_path, summary(), days_ago=400)
    judge(tmp_path, summary(verdict="bad"), days_ago=36)
    # Of a run that has died, and what is no day of an audit.
    (tmp_path / "reports" / f"date={TODAY - timedelta(days=35)}").mkdir()
    (tmp_path / "reports" / "date=0-notes").write_text("")
    assert [one.verdict for one in days_of(tmp_path)] == ["none"] * DAYS + ["bad"]
    assert days_of(tmp_path)[-1].date == "2026-10-24"
    judge(tmp_path, summary(), days_ago=34)
    assert [one.verdict for one in days_of(tmp_path)] == ["none"] * (DAYS - 1) + ["good"]


def test_what_is_no_day_of_an_audit_hides_none_before_it(tmp_path: Path) -> None:
    judge(tmp_path, summary(verdict="bad"), days_ago=400)
    (tmp_path / "reports" / "date=2026-02-30").mkdir()
    (tmp_path / "reports" / "date=2026-02-30" / "summary.json").write_text(summary())
    (tmp_path / "reports" / "date=2026-03-01").write_text("")
    assert days_of(tmp_path)[-1].date == "2025-10-25"


@pytest.mark.parametrize("days_ago", [3, 400])
def test_a_day_whose_audit_anew_was_killed_between_two_renames_is_what_it_was(
    tmp_path: Path, days_ago: int
) -> None:
    judge(tmp_path, summary(verdict="bad"), days_ago=days_ago)
    judge(tmp_path, summary(), days_ago=days_ago + 1)
    reports, day = tmp_path / "reports", str(TODAY - timedelta(days=days_ago))
    (reports / f"date={day}" / "report.html").write_text("")
    (reports / f"date={day}").rename(reports / f".old-date={day}")
    last = last_judged(days_of(tmp_path))
    assert last is not None and (last.date, last.verdict, last.has_page) == (day, "bad", True)
    assert report_file(str(tmp_path), day) == reports / f".old-date={day}" / "report.html"
    judge(tmp_path, summary(), days_ago=days_ago)
    last = last_judged(days_of(tmp_path))
    assert last is not None and (last.date, last.verdict, last.has_page) == (day, "good", False)


def test_a_summary_is_read(tmp_path: Path) -> None:
    counts = json.dumps({"requests": 3, "findings": {"ran_twice": 2, "lost": 0}})
    found = day_of(tmp_path, summary(counts, '["no journal"]'))
    assert (found.verdict, found.requests, found.findings) == ("good", 3, {"ran twice": 2})
    assert found.unseen == ("no journal",)


def test_audits_that_have_judged_no_day_are_not_known(tmp_path: Path) -> None:
    (tmp_path / "reports" / f"date={TODAY}").mkdir(parents=True)
    with pytest.raises(NotAvailable, match="no day was judged yet"):
        days_of(tmp_path)
    nobody_s = AuditSection.model_construct(output=str(tmp_path), _fields_set=set())
    assert {one.verdict for one in audit_days(nobody_s, today=TODAY)} == {"none"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        summary('{"requests": 1, "findings": []}'),
        summary('{"requests": Infinity, "findings": {}}'),
        summary('{"requests": NaN, "findings": {}}'),
        summary('{"requests": 1, "findings": {"lost": Infinity}}'),
        summary("[]"),
        summary(unseen="5"),
        summary(unseen='"abc"'),
    ],
    ids=map(str, range(11)),
)
def test_a_summary_that_nobody_can_read_is_no_good_day(tmp_path: Path, text: str) -> None:
    found = day_of(tmp_path, text)
    assert (found.verdict, found.unseen) == ("incomplete", ("its summary cannot be read",))
