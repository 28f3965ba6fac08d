"""The days of the audit: a summary that nobody can read is no good day, and makes no page fail."""

import json
from datetime import date
from pathlib import Path

import pytest

from consumer.console.audit_days import AuditDay, audit_days
from feedback.settings.sections import AuditSection

TODAY = date(2026, 11, 29)


def day_of(folder: Path, text: str) -> AuditDay:
    """Return today, whose summary has this text."""
    reports = folder / "reports" / f"date={TODAY}"
    reports.mkdir(parents=True)
    (reports / "summary.json").write_text(text)
    return audit_days(AuditSection(output=str(folder)), today=TODAY)[0]


def summary(counts: str = '{"requests": 3, "findings": {}}', unseen: str = "[]") -> str:
    """Return a summary of a good day with these parts."""
    return f'{{"verdict": "good", "counts": {counts}, "unseen": {unseen}}}'


def test_a_summary_is_read(tmp_path: Path) -> None:
    counts = json.dumps({"requests": 3, "findings": {"ran_twice": 2, "lost": 0}})
    found = day_of(tmp_path, summary(counts, '["no journal"]'))
    assert (found.verdict, found.requests, found.findings) == ("good", 3, {"ran twice": 2})
    assert found.unseen == ("no journal",)


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
