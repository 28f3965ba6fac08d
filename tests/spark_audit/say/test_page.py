"""The page: what it says, and that nothing from outside can act in it."""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files

import pytest
from jinja2 import UndefinedError

from spark_audit.findings import ORDINARY, REQUEST_FINDINGS, SHOWN, URGENT, Finding, FindingRow
from spark_audit.judge.figures import WorkerShare
from spark_audit.judge.status_check import Disagreement
from spark_audit.say.cards import CardSources
from spark_audit.say.history import RECENT, Day, History, strip_of
from spark_audit.say.page import render
from spark_audit.say.resend_lines import ResendLines
from spark_audit.say.summary import Summary
from spark_audit.stage.chain import ChainLink
from spark_audit.stage.gaps import Gap
from tests.spark_audit.say.reading import Element, read
from tests.spark_audit.say.samples import HOUR_MS, SINCE_MS, found_request, summary

HOSTILE = "</td><script>alert(1)</script><img src=x onerror=alert(2)>'\"&\u202e{{7*7}}"
GAPS = [
    Gap(kind, HOSTILE, 3, 2**31, 2**31 + 10, 10)
    for kind in (Finding.RETENTION_GAP, Finding.OFFSET_GAP)
]
FILES = ("summary.json", "resend.jsonl", "in_doubt.csv", "status_disagrees.csv", "lost.csv")
First = Mapping[Finding, Sequence[FindingRow]]


def _page(
    found: Summary, first: First | None = None, told: Mapping[str, str] | None = None
) -> Element:
    return read(render(found, CardSources(first or {}, told or {}, FILES)))


def _hostile() -> str:
    more = dict.fromkeys(("topic", "state", "code", "owner", "reason"), HOSTILE)
    kinds = (*REQUEST_FINDINGS, Finding.STATUS_DISAGREES)
    everything = {one: [found_request(HOSTILE, one, **more)] for one in kinds}
    found = summary(
        dict.fromkeys(REQUEST_FINDINGS, 1),
        gaps=GAPS,
        disagreements=[Disagreement(HOSTILE, HOSTILE, HOSTILE)],
        group=HOSTILE,
        unseen=[HOSTILE],
        codes=((HOSTILE, 1),),
        workers=(WorkerShare(HOSTILE, 1, 1),),
        by_state={HOSTILE: 1},
        records={HOSTILE: 1},
        by_topic={HOSTILE: {Finding.LOST: 1}},
        links=(ChainLink(HOSTILE, 0, "", 0, (), next_first=7, judged=7),),
    )
    return render(found, CardSources(everything, {HOSTILE: HOSTILE}, FILES))


def test_nothing_from_outside_becomes_an_element_or_an_attribute() -> None:
    page = read(_hostile())
    assert len(list(page.all("script"))) == 1
    assert not list(page.all("img"))
    for one in page.all():
        assert not any(name.startswith("on") for name in one.attributes)
        assert not any("alert" in value for value in one.attributes.values())
    # One for each place that shows something from outside, as text.
    shown = [one for one in page.all() if "<script>alert(1)</script>" in "".join(_own(one))]
    assert len(shown) > 60


def _own(element: Element) -> list[str]:
    return [one for one in element.inside if isinstance(one, str)]


def test_what_turns_the_direction_of_writing_is_shown_and_not_done() -> None:
    page = _hostile()
    assert "\u202e" not in page
    assert r"\u202e" in page
    assert "{{7*7}}" in page


def test_the_page_is_one_file_that_loads_nothing() -> None:
    page = read(_hostile())
    tags = {one.tag for one in page.all()}
    assert not {"link", "img", "iframe", "object", "embed", "form"} & tags
    assert not any("src" in one.attributes for one in page.all())
    assert "url(" not in _hostile()
    assert "@import" not in _hostile()


def test_links_are_relative_so_that_the_folders_may_move_together() -> None:
    for link in read(_hostile()).all("a"):
        assert re.fullmatch(r"#\w+|(\.\./\.\./)?[\w=./-]+", link.attributes["href"])


def test_the_policy_lets_run_the_pages_own_script_and_no_other() -> None:
    page = read(_hostile())
    digest = hashlib.sha256(page.one("script").text.encode()).digest()
    (policy,) = [
        one.attributes["content"] for one in page.all("meta") if "http-equiv" in one.attributes
    ]
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{base64.b64encode(digest).decode()}'; "
        "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    )


def test_the_script_is_the_same_whatever_is_found() -> None:
    assert read(_hostile()).one("script").text == _page(summary()).one("script").text


def test_nothing_in_the_template_switches_escaping_off() -> None:
    for one in (files("spark_audit.say") / "templates").iterdir():
        text = one.read_text(encoding="utf-8")
        assert not re.search(r"\|\s*safe|autoescape|Markup", text)


def test_the_verdict_comes_first_and_then_the_most_urgent() -> None:
    page = read(_hostile())
    assert [one.tag for one in page.all()].index("h1") < 20
    names = [one.attributes["id"] for one in page.all("details", "finding")]
    assert names == [one.value for one in (*URGENT, *ORDINARY)]


def test_findings_that_were_not_made_are_named_apart() -> None:
    page = _page(summary({Finding.LATE: 1}), {Finding.LATE: [found_request("a")]})
    assert [one.attributes["id"] for one in page.all("details", "finding")] == ["late"]
    missing = [one.text for one in page.one("table", "missing").all("th", scope="row")]
    assert len(missing) == len(Finding) - 1
    assert missing[0] == "ran twice"


def test_every_number_stands_beside_yesterday_and_the_median() -> None:
    yesterday = Day("2026-11-19", "good", {"requests": 4_321, "lost": 77, "p50_ms": 3.0})
    older = Day("2026-11-18", "good", {"requests": 4_322, "lost": 78, "p50_ms": None})
    history = History(yesterday, (yesterday, older))
    said = _page(summary({Finding.LOST: 1}, history=history)).words
    for text in ("yesterday 4,321", "median 4,321.5", "yesterday 77", "77.5", "yesterday 3 ms"):
        assert text in said


def test_the_first_day_says_that_there_was_none_before() -> None:
    assert "no earlier day" in _page(summary()).words


def test_the_first_of_many_are_shown_and_where_all_of_them_are() -> None:
    rows = [found_request(f"request-{number}", Finding.LOST) for number in range(SHOWN + 50)]
    card = _page(summary({Finding.LOST: 100_000}), {Finding.LOST: rows}).one(id="lost")
    assert len(list(card.all("li", "request"))) == SHOWN
    assert f"The first {SHOWN} of 100,000." in card.words
    assert [one.attributes["href"] for one in card.all("a")] == [
        "lost.csv",
        "../../findings/date=2026-11-20/kind=lost/",
    ]


def test_a_finding_that_fails_the_day_lies_open() -> None:
    rows = {Finding.LOST: [found_request("a")], Finding.LATE: [found_request("b")]}
    page = _page(summary({Finding.LOST: 1, Finding.LATE: 1}), rows)
    opened = [one.attributes["id"] for one in page.all("details", "finding", open="")]
    assert opened == ["lost"]


def test_a_request_opens_on_what_journal_redis_and_kafka_know_of_it() -> None:
    row = found_request("a", Finding.IN_DOUBT, state="IN_DOUBT", code="TIMEOUT", offset=7)
    told = {"a": "RUNNING, attempt 1, generation 2"}
    page = _page(summary({Finding.IN_DOUBT: 1}), {Finding.IN_DOUBT: [row]}, told)
    request = page.one("li", "request")
    assert request.one("summary").words == "a payments IN_DOUBT TIMEOUT 1 d"
    assert request.attributes["data-since"] == str(SINCE_MS + 500)
    parts = [one for one in request.one(css="known").inside if isinstance(one, Element)]
    known = {one.one("h4").text: one.words for one in parts}
    assert "State IN_DOUBT Code TIMEOUT Runs 1" in known["Journal"]
    assert "RUNNING, attempt 1, generation 2" in known["Redis"]
    assert "payments / 0 / 7" in known["Kafka"]
    assert "Since 2026-11-20 00:00:00" in request.words


def test_the_commands_of_a_doubt_name_the_run_that_was_judged() -> None:
    row = found_request("a", Finding.IN_DOUBT, state="IN_DOUBT", generation=4)
    page = _page(summary({Finding.IN_DOUBT: 1}), {Finding.IN_DOUBT: [row]})
    commands = [one.text for one in page.one("li", "request").all("code")]
    resolves = [one for one in commands if " resolve " in one]
    assert resolves == [
        f"onceward-dlq resolve {how} --run 4 --because '' a" for how in ("--succeeded", "--failed")
    ]


def test_what_nobody_asked_redis_for_is_said_to_be_so() -> None:
    page = _page(summary({Finding.LATE: 1}), {Finding.LATE: [found_request("a")]})
    assert "Told not asked" in page.one("li", "request").words


def test_a_request_of_tomorrow_or_of_no_time_has_no_age() -> None:
    rows = [
        found_request("a", first_at=SINCE_MS + 1000 * HOUR_MS),
        found_request("b", first_at=None, claimed_at=None),
    ]
    page = _page(summary({Finding.LATE: 2}), {Finding.LATE: rows})
    assert [one.text for one in page.all("span", "age")][1:] == ["–", "–"]  # noqa: RUF001
    assert "data-since" not in list(page.all("li", "request"))[1].attributes


def test_statuses_that_were_not_compared_are_not_shown_as_zero() -> None:
    assert "not compared" in _page(summary(disagreements=None)).words
    assert "not compared" not in _page(summary()).words


def test_a_green_day_says_what_was_looked_at() -> None:
    link = ChainLink("payments", 3, "", 10, (), next_first=110, judged=98, silent=2, waiting=5)
    page = _page(summary(links=(link,), statuses=1_234, records={"request": 98, "dlq": 4}))
    said = page.words
    for text in ("100 offsets", "5 wait", "1,234 statuses", "98 request", "4 dlq"):
        assert text in said
    row = next(one for one in page.all("tr") if any(one.all("td", **{"data-label": "From"})))
    assert row.words == "payments 3 10 110 100 98 0 5"


def test_topics_are_told_with_what_was_found_of_each() -> None:
    link = ChainLink("calm", 0, "", 0, (), next_first=9, judged=9)
    counts = {"payments": {Finding.LATE: 1, Finding.LOST: 2}, None: {Finding.ORPHAN: 1}}
    page = _page(summary(links=(link,), by_topic=counts))
    found = {row.one("th").text: row.one("td", "wide").text for row in _rows(page, "Offsets")}
    assert found == {
        "payments": "2 lost, 1 late",
        "without a record": "1 orphan",
        "calm": "nothing",
    }


def _rows(page: Element, label: str) -> list[Element]:
    return [one for one in page.all("tr") if any(one.all("td", **{"data-label": label}))]


def test_the_days_before_are_a_strip_that_leads_to_their_pages() -> None:
    days = [
        Day("2026-11-18", "bad", {"requests": 1_000, "lost": 3}),
        Day("2026-11-19", "good", {"requests": 2_000}),
    ]
    strip = strip_of(days, "2026-11-20", has_page=lambda date: date == "2026-11-19")
    page = read(render(summary(), CardSources({}, {}, (), strip)))
    marks = list(page.one("ol", "strip").all("li"))
    assert len(marks) == RECENT + 1
    assert [one.words for one in marks[-3:]] == [
        "2026-11-18: bad, 1,000 requests, 3 lost",
        "2026-11-19: good, 2,000 requests",
        "2026-11-20: this day",
    ]
    assert [one.attributes["href"] for one in page.one("ol", "strip").all("a")] == [
        "../date=2026-11-19/report.html"
    ]
    assert page.one("a", rel="prev").attributes["href"] == "../date=2026-11-19/report.html"
    assert marks[0].words == "2026-10-21: no audit"


def test_every_table_has_headers_and_every_chart_a_title_and_a_text() -> None:
    page = read(_hostile())
    for table in page.all("table"):
        assert list(table.all("th", scope="col"))
        assert table.one("caption").text
    charts = list(page.all("svg"))
    assert len(charts) == 3
    for chart in charts:
        title, text = chart.attributes["aria-labelledby"].split()
        assert chart.one("title", id=title).text
        assert chart.one("desc", id=text).text


def test_no_id_is_given_twice() -> None:
    ids = [one.attributes["id"] for one in read(_hostile()).all() if "id" in one.attributes]
    assert len(ids) == len(set(ids))


def test_it_says_of_what_was_resent_how_much_had_to_be() -> None:
    rows = [found_request(one, Finding.RESENT, resend_needed=one == "a") for one in ("a", "b")]
    page = _page(summary({Finding.RESENT: 1_003}, resends_needed=12), {Finding.RESENT: rows})
    assert "Needed: 12 of 1,003." in page.words
    needed = [re.search(r"Resend needed (yes|no)", one.words) for one in page.all("li", "request")]
    assert [one and one[1] for one in needed] == ["yes", "no"]
    assert "Needed:" not in _page(summary()).words


def test_what_may_be_sent_again_is_told_with_the_command() -> None:
    counts = {Finding.LOST: 6}
    card = _page(summary(counts, resend=ResendLines(3, 2, 1))).one(id="lost")
    assert card.one("code").text == "onceward-client send --file resend.jsonl"
    for text in ("3 of them are safe", "Of 2 more nobody has", "they may have run"):
        assert text in card.words
    assert not list(_page(summary(counts)).one(id="lost").all("code"))


def test_a_day_without_requests_has_a_page() -> None:
    empty = summary(requests=0, errors=0, by_state={}, latencies={}, codes=(), workers=(), hours=())
    said = _page(empty).words
    for text in ("No requests", "Nobody has to act.", "No request has ended.", "no worker"):
        assert text in said
    assert "no topic" in said


def test_the_same_day_gives_the_same_page() -> None:
    assert _hostile() == _hostile()


def test_a_summary_that_lacks_a_name_gives_no_page() -> None:
    broken = summary()
    del broken["group"]
    with pytest.raises(UndefinedError):
        _page(broken)
