"""The first sentences: no more than is known, and whether anything is at risk."""

from typing import Any

import pytest

from spark_audit.findings import Finding
from spark_audit.say.page import headline, span, stake
from tests.spark_audit.say.samples import DAY_MS, SINCE_MS, summary

GREEN = "Nothing at risk: nothing lost, nothing ran twice"


@pytest.mark.parametrize(
    ("findings", "more", "expected"),
    [
        ({}, {}, GREEN),
        ({Finding.LATE: 9}, {}, GREEN),
        ({Finding.LOST: 1_000, Finding.RAN_TWICE: 1}, {}, "At risk: 1 ran twice, 1,000 lost"),
        ({Finding.IN_DOUBT: 3}, {}, "Nothing lost, nothing ran twice; at risk: 3 in doubt"),
        (
            {Finding.LATE: 9},
            {"fail_on": "late>3"},
            "Nothing lost, nothing ran twice; over its limit: 9 late",
        ),
        (
            {Finding.LOST: 1, Finding.LATE: 9},
            {"fail_on": "lost>0,late>3"},
            "At risk: 1 lost, 9 late",
        ),
        ({Finding.LOST: 1}, {"fail_on": "lost>1"}, "Within the limits that were set: 1 lost"),
        ({Finding.OVERDUE: 1}, {}, "Within the limits that were set: 1 overdue"),
        ({}, {"requests": 0}, "No requests"),
        ({}, {"requests": 0, "unseen": ["x"]}, "Not everything could be seen"),
        (
            {Finding.LOST: 1},
            {"unseen": ["Redis is away"]},
            "Not everything could be seen; so far 1 lost",
        ),
    ],
)
def test_the_headline_says_no_more_than_is_known(
    findings: dict[Finding, int], more: dict[str, Any], expected: str
) -> None:
    assert headline(summary(findings, **more)) == expected


@pytest.mark.parametrize(
    ("findings", "more", "expected"),
    [
        ({}, {}, "nobody has to act"),
        ({Finding.IN_DOUBT: 1}, {}, "Money may have moved twice"),
        ({Finding.STUCK: 1}, {}, "their clients wait"),
        ({}, {"unseen": ["x"]}, "may hide a loss"),
        ({}, {"requests": 0}, "names the wrong ones"),
    ],
)
def test_what_follows_is_said_beside_it(
    findings: dict[Finding, int], more: dict[str, Any], expected: str
) -> None:
    assert expected in stake(summary(findings, **more))


def test_a_window_that_is_no_day_is_said_with_its_times() -> None:
    assert span(SINCE_MS, SINCE_MS + DAY_MS) == "20 November 2026, UTC"
    assert span(SINCE_MS + 60_000, SINCE_MS + DAY_MS) == (
        "20 November 2026 00:01 to 21 November 2026 00:00, UTC"
    )
