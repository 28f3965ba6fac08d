"""`--fail-on`, and the verdict that follows."""

import pytest

from feedback.errors import ExitCode, SettingsError
from feedback.settings.sections import AuditSection
from spark_audit.findings import Finding
from spark_audit.judge.day_verdict import DayVerdict, judge_counts, parse_fail_on


def test_conditions_are_read_with_or_without_spaces() -> None:
    found = parse_fail_on(" lost > 0,ran_twice>0 , in_doubt>=100")
    assert [str(one) for one in found] == ["lost>0", "ran_twice>0", "in_doubt>=100"]


def test_every_finding_can_be_a_condition() -> None:
    found = parse_fail_on(",".join(f"{one}>0" for one in Finding))
    assert [one.finding for one in found] == list(Finding)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "lost",
        "lost>0,",
        "lots>0",
        "LOST>0",
        "lost>-1",
        "lost>1.5",
        "lost<1",
        "lost=0",
        "lost>0 ran_twice>0",
        "lost>\u0661",
        "lost>0\nx",
        "lost>" + "9" * 19,
    ],
)
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="--fail-on"):
        parse_fail_on(text)


def test_the_refusal_of_an_unknown_finding_names_those_there_are() -> None:
    with pytest.raises(SettingsError, match="no finding lots; there are lost, forgotten"):
        parse_fail_on("lots>0")


@pytest.mark.parametrize(
    ("condition", "count", "is_bad"),
    [("lost>0", 0, False), ("lost>0", 1, True), ("lost>=2", 1, False), ("lost>=2", 2, True)],
)
def test_a_count_beyond_the_limit_makes_the_day_bad(
    condition: str, count: int, is_bad: bool
) -> None:
    judgement = judge_counts({Finding.LOST: count}, parse_fail_on(condition), unseen=())
    assert (judgement.verdict is DayVerdict.BAD) is is_bad
    assert judgement.exit_code is (ExitCode.BAD_ANSWER if is_bad else ExitCode.FINE)


@pytest.mark.parametrize("finding", [Finding.LOST, Finding.RAN_TWICE, Finding.OVERDUE])
def test_what_fails_by_default(finding: Finding) -> None:
    judgement = judge_counts({finding: 1}, parse_fail_on(AuditSection().fail_on), unseen=())
    assert judgement.exit_code is ExitCode.BAD_ANSWER


def test_other_findings_leave_a_day_good() -> None:
    grave = (Finding.LOST, Finding.RAN_TWICE, Finding.OVERDUE)
    found = dict.fromkeys(Finding, 5) | dict.fromkeys(grave, 0)
    judgement = judge_counts(found, parse_fail_on(AuditSection().fail_on), unseen=())
    assert (judgement.verdict, judgement.failed_on) == (DayVerdict.GOOD, ())


def test_what_was_not_seen_whole_is_neither_good_nor_bad() -> None:
    conditions = parse_fail_on(AuditSection().fail_on)
    for found in ({}, {Finding.LOST: 3}):
        judgement = judge_counts(found, conditions, unseen=["Redis is away"])
        assert judgement.verdict is DayVerdict.INCOMPLETE
        assert judgement.exit_code is ExitCode.NOT_AVAILABLE
    assert [str(one) for one in judgement.failed_on] == ["lost>0"]
