"""The page: what it says, and that nothing from outside can act in it."""

import re
from html.parser import HTMLParser
from importlib.resources import files
from typing import Any

import pytest
from jinja2 import UndefinedError

from spark_audit.figures import Worker
from spark_audit.findings import REQUEST_FINDINGS, Finding
from spark_audit.found import SHOWN
from spark_audit.gaps import Gap
from spark_audit.history import Day, History
from spark_audit.page import headline, render, span
from spark_audit.resend_lines import ResendLines
from spark_audit.statuses import Disagreement
from spark_audit.wording import NOTHING
from tests.spark_audit.say.samples import DAY_MS, SINCE_MS, found_request, summary

HOSTILE = "</td><script>alert(1)</script><img src=x onerror=alert(2)>'\"&\u202e{{7*7}}"
GAP = Gap(Finding.RETENTION_GAP, HOSTILE, 3, 2**31, 2**31 + 10, 10)
# Elements that stand alone in HTML.
VOID = ("meta", "br")


class _Read(HTMLParser):
    """Reads a page as a browser does, and minds that what is opened is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the element."""
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Note that it is closed."""
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Note what is written."""
        self.text.append(data)

    def values(self, name: str) -> list[str]:
        """Return the values of an attribute."""
        return [value for _, found, value in self.attributes if found == name]


def _hostile_page() -> str:
    more = dict.fromkeys(("topic", "state", "code", "owner", "reason"), HOSTILE)
    everything = {one: [found_request(HOSTILE, one, **more)] for one in REQUEST_FINDINGS}
    disagreements = [Disagreement(HOSTILE, HOSTILE, HOSTILE)]
    found = summary(
        dict.fromkeys(REQUEST_FINDINGS, 1),
        gaps=[GAP],
        disagreements=disagreements,
        group=HOSTILE,
        unseen=[HOSTILE],
        codes=((HOSTILE, 1),),
        workers=(Worker(HOSTILE, 1, 1),),
        by_state={HOSTILE: 1},
    )
    return render(found, everything, disagreements)


def test_nothing_from_outside_becomes_an_element_or_an_attribute() -> None:
    plain, hostile = _Read(render(summary(), {})), _Read(_hostile_page())
    assert "script" not in hostile.tags
    assert "img" not in hostile.tags
    assert {name for _, name, _ in hostile.attributes} <= {
        name for _, name, _ in plain.attributes
    } | {"open", "href"}
    assert not any("alert" in value for _, _, value in hostile.attributes)
    # One for each place that shows something from outside, as text.
    assert sum("<script>alert(1)</script>" in text for text in hostile.text) > 30


def test_what_turns_the_direction_of_writing_is_shown_and_not_done() -> None:
    page = _hostile_page()
    assert "\u202e" not in page
    assert r"\u202e" in page
    assert "{{7*7}}" in page


def test_the_page_is_one_file_that_loads_nothing() -> None:
    page = _Read(_hostile_page())
    assert not {"script", "link", "img", "iframe", "object", "embed", "form"} & set(page.tags)
    assert not page.values("src")
    assert all(one.startswith("#") for one in page.values("href"))
    assert "url(" not in _hostile_page()
    assert "@import" not in _hostile_page()


def test_the_policy_forbids_everything_but_its_own_style() -> None:
    (policy,) = [one for one in _Read(render(summary(), {})).values("content") if "src" in one]
    assert policy == (
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    )


def test_nothing_in_the_template_switches_escaping_off() -> None:
    for one in (files("spark_audit") / "templates").iterdir():
        text = one.read_text(encoding="utf-8")
        assert not re.search(r"\|\s*safe|autoescape|Markup", text)


def test_the_verdict_comes_first() -> None:
    page = _Read(render(summary({Finding.LOST: 3}), {}))
    words = "".join(page.text[page.text.index("3 lost") :])
    assert words.index("3 lost") < words.index("What was found")
    assert page.tags.count("h1") == 1


@pytest.mark.parametrize(
    ("findings", "more", "expected"),
    [
        ({}, {}, "Nothing lost, nothing ran twice"),
        ({Finding.LATE: 9}, {}, "Nothing lost, nothing ran twice"),
        ({Finding.LOST: 1_000, Finding.RAN_TWICE: 1}, {}, "1,000 lost, 1 ran twice"),
        ({Finding.LOST: 1}, {"fail_on": "lost>1"}, "Within the limits that were set"),
        ({Finding.OVERDUE: 1}, {}, "Within the limits that were set"),
        ({}, {"requests": 0}, "No requests"),
        ({}, {"requests": 0, "unseen": ["x"]}, "Not everything could be seen"),
        ({Finding.LOST: 1}, {"unseen": ["Redis is away"]}, "Not everything could be seen"),
    ],
)
def test_the_headline_says_no_more_than_is_known(
    findings: dict[Finding, int], more: dict[str, Any], expected: str
) -> None:
    assert headline(summary(findings, **more)) == expected


def test_every_number_stands_beside_yesterday_and_the_median() -> None:
    yesterday = Day("2026-11-19", "good", {"requests": 4_321, "lost": 77, "p50_ms": 3.0})
    older = Day("2026-11-18", "good", {"requests": 4_322, "lost": 78, "p50_ms": None})
    said = "".join(_Read(render(summary(history=History(yesterday, (yesterday, older))), {})).text)
    for text in ("yesterday 4,321", "median 4,321.5", "77", "77.5", "yesterday 3 ms"):
        assert text in said


def test_the_first_day_says_that_there_was_none_before() -> None:
    assert "no earlier day" in "".join(_Read(render(summary(), {})).text)


def test_the_first_of_many_are_shown_and_their_number_said() -> None:
    rows = [found_request(f"request-{number}", Finding.LATE) for number in range(SHOWN + 50)]
    page = render(summary({Finding.LATE: 12_345}), {Finding.LATE: rows})
    assert page.count("request-") == SHOWN
    assert f"The first {SHOWN} of 12,345." in page


def test_a_finding_that_fails_the_day_lies_open() -> None:
    rows = {Finding.LOST: [found_request("a")], Finding.LATE: [found_request("b")]}
    page = render(summary({Finding.LOST: 1, Finding.LATE: 1}), rows)
    (opened,) = re.findall(r'<details[^>]*id="(\w+)"[^>]* open>', page)
    assert opened == "lost"


def test_statuses_that_were_not_compared_are_not_shown_as_zero() -> None:
    assert "not compared" in render(summary(disagreements=None), {})
    assert "not compared" not in render(summary(), {})


def test_every_table_has_headers_and_every_chart_a_title_and_a_text() -> None:
    page = _hostile_page()
    for table in re.findall(r"<table.*?</table>", page, re.S):
        assert '<th scope="col"' in table
        assert "<caption" in table
    charts = re.findall(r"<svg.*?</svg>", page, re.S)
    assert len(charts) == 3
    for chart in charts:
        named = re.search(r'aria-labelledby="(\S+) (\S+)"', chart)
        assert named
        assert f'<title id="{named[1]}">' in chart
        assert f'<desc id="{named[2]}">' in chart


def test_no_id_is_given_twice_and_every_link_leads_somewhere() -> None:
    page = _Read(_hostile_page())
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert {one[1:] for one in page.values("href")} <= set(ids)


def test_it_says_of_what_was_resent_how_much_had_to_be() -> None:
    rows = [found_request(one, Finding.RESENT, resend_needed=one == "a") for one in ("a", "b")]
    rows.append(found_request("c", Finding.RESENT, resend_needed=None))
    counts = {Finding.RESENT: 1_003}
    page = render(summary(counts, resends_needed=12), {Finding.RESENT: rows})
    assert page.count("Needed: 12 of 1,003.") == 2  # among all findings, and by name
    other = r"\s*<td[^>]*>[^<]*</td>"
    shown = re.findall(rf'<td class="id">([abc])</td>{other * 3}\s*<td[^>]*>([^<]+)<', page)
    assert shown == [("a", "yes"), ("b", "no"), ("c", NOTHING)]
    assert "Needed:" not in render(summary(), {})


def test_what_may_be_sent_again_is_told_with_the_command() -> None:
    page = render(summary(resend=ResendLines(3, 2, 1)), {})
    assert "onceward-client send --file resend.jsonl" in page
    assert "onceward-client send" not in render(summary(), {})


def test_a_day_without_requests_has_a_page() -> None:
    empty = summary(requests=0, errors=0, by_state={}, latencies={}, codes=(), workers=(), hours=())
    said = " ".join(_Read(render(empty, {})).text)
    for text in ("No request has ended.", "no request", "no error with a code", "no worker"):
        assert text in said


def test_the_same_day_gives_the_same_page() -> None:
    assert _hostile_page() == _hostile_page()


def test_a_summary_that_lacks_a_name_gives_no_page() -> None:
    broken = summary()
    del broken["resend"]
    with pytest.raises(UndefinedError):
        render(broken, {})


def test_a_window_that_is_no_day_is_said_with_its_times() -> None:
    assert span(SINCE_MS, SINCE_MS + DAY_MS) == "20 November 2026, UTC"
    assert span(SINCE_MS + 60_000, SINCE_MS + DAY_MS) == (
        "20 November 2026 00:01 to 21 November 2026 00:00, UTC"
    )
