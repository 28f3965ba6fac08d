"""Letters are sent back and discarded as they were previewed; a console that dies loses nothing."""

import os
import re
import sys
from collections import Counter
from contextlib import ExitStack
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import NullPool, create_engine, insert, select, update

from consumer.console.previews import DISCARD, REDRIVE
from consumer.console.redrives import BackgroundRedrives, RedriveThread
from consumer.dlq.discard_command import discard_letters
from consumer.dlq.redrive.loop import RedrivePace
from consumer.dlq.redrive.redrive_session import resume
from consumer.dlq.unfinished import SILENT_MS
from consumer.journal.redrive.redrive_row import CANCELLED, DONE, RUNNING
from consumer.journal.tables import redrive, request
from feedback.clock import epoch_ms
from feedback.errors import ExitCode
from tests.consumer.console.conftest import Open, PlantLetters
from tests.consumer.console.people import Browser, browsing, logged_in, with_people
from tests.consumer.dlq.redrive.planted import Planted
from tests.consumer.dlq.redrive.planting import plant, row_of
from tests.eventually import eventually
from tests.kit.program import StartedProgram

LETTERS = 6
BECAUSE = "the bank is back <b>\u202e"


pytestmark = pytest.mark.usefixtures("no_given_servers")


@pytest.fixture
def planted(plant_letters: PlantLetters) -> Planted:
    """Return a few letters of a group without a worker."""
    return plant_letters(LETTERS)


def more(planted: Planted, begin: int) -> None:
    """Let one request more fail."""
    settings = planted.settings
    plant(
        kafka=settings.kafka.bootstrap_servers,
        journal_url=settings.journal.url,
        group=settings.kafka.group,
        topic=planted.topic,
        letters=1,
        begin=begin,
    )


def ask_anew(planted: Planted, failed: str) -> None:
    """Let a later request of a failed one's key succeed."""
    now = epoch_ms()
    row = row_of(failed, planted.topic)._replace(
        request_id="asked-anew",
        state="SUCCEEDED",
        code=None,
        message=None,
        offset=77,
        claimed_at=now,
        finished_at=now,
        deadline_at=now + 60_000,
    )
    engine = create_engine(planted.settings.journal.url, poolclass=NullPool)
    with engine.begin() as connection:
        group = planted.settings.kafka.group
        connection.execute(insert(request).values(group=group, **row._asdict()))


def fail_anew(planted: Planted, failed: str, later: str) -> None:
    """Let a failure be that of a request that was sent after another one of its key had failed."""
    of = (request.c.group == planted.settings.kafka.group, request.c.request_id == failed)
    first = select(request.c.message_key, request.c.finished_at).where(*of)
    engine = create_engine(planted.settings.journal.url, poolclass=NullPool)
    with engine.begin() as connection:
        key, failed_at = connection.execute(first).one()
        changed = update(request).where(of[0], request.c.request_id == later)
        times = dict.fromkeys(("claimed_at", "finished_at", "deadline_at"), failed_at + 1)
        connection.execute(changed.values(message_key=key, **times))


def previewed(page: str) -> str:
    """Return the preview that a page's form carries."""
    (found,) = re.findall(r'name="preview" value="([^"]+)"', page)
    return str(found)


def redrive_of(answer: httpx.Response) -> str:
    """Return the id of the redrive whose page an answer leads to."""
    assert answer.status_code == 303, unescape(answer.text)
    return answer.headers["location"].removeprefix("/redrives/")


def seen_of(browser: Browser, redrive_id: str) -> str:
    """Return how the page of a redrive shows it, as the form to go on with it says."""
    page = browser.http.get(f"/redrives/{redrive_id}?go-on=yes").text
    (found,) = re.findall(r'name="seen" value="([^"]+)"', page)
    return str(found)


def ended(planted: Planted, redrive_id: str) -> None:
    """Return when nobody is at work on a redrive."""
    eventually(lambda: planted.redrive().owner is None, what=redrive_id, timeout_s=60)


@pytest.fixture
def olga(planted: Planted, opened: Open, people: ExitStack) -> Browser:
    """Return the browser of an operator."""
    (browser,) = people.enter_context(logged_in(opened(planted.settings), "olga"))
    return browser


def test_what_was_seen_is_sent_back_or_nothing(planted: Planted, olga: Browser) -> None:
    where = "/choose/redrive?reason=BANK_CLOSED"
    page = olga.http.get(where)
    assert f"{LETTERS} dead letters" in page.text and "request-00000003" in page.text
    by_message = olga.http.get("/choose/redrive", params={"message": "the bank is closed"})
    assert f"{LETTERS} dead letters" in by_message.text
    assert "0 dead letters" in olga.http.get("/choose/redrive?message=the+bank").text
    seen = previewed(page.text)
    # Meanwhile one fails, and another person discards one of those that were seen.
    more(planted, LETTERS)
    one = previewed(olga.http.get("/choose/discard?id=request-00000003").text)
    done = olga.send("/act/discard", page=where, preview=one, because="refunded")
    assert done.headers["location"] == "/request?id=request-00000003"

    answer = olga.send("/act/redrive", page=where, preview=seen, because=BECAUSE)
    assert answer.status_code == 409 and f"{LETTERS} then, {LETTERS - 1} now" in answer.text
    assert planted.redrives() == []
    again = previewed(answer.text)
    redrive_id = redrive_of(olga.send("/act/redrive", page=where, preview=again, because=BECAUSE))
    ended(planted, redrive_id)
    sent = {f"request-{number:08d}" for number in range(LETTERS)} - {"request-00000003"}
    assert planted.sent(redrive_id) == Counter(sent)
    stands = planted.redrive()
    assert (stands.state, stands.by, stands.reason) == (DONE, "olga", BECAUSE)
    of_it = [one for one in planted.actions() if one["redrive_id"] == redrive_id]
    assert {one["by"] for one in of_it} == {"olga"} and len(of_it) == len(sent)
    page = olga.http.get(f"/redrives/{redrive_id}")
    assert "done" in page.text and "\u202e" not in page.text and "<b>\\u" not in page.text
    assert redrive_id in olga.http.get("/redrives").text

    # The discard is taken back, once.
    where = "/request?id=request-00000003"
    undo = olga.form("undo_discard", where) | {"because": "not refunded"}
    assert "Undo the discard" in olga.http.get(where).text
    assert [olga.send("/act/undo_discard", **undo).status_code for _ in range(2)] == [303, 409]


def test_the_form_of_a_preview_previews_the_same_letters_again(
    planted: Planted, olga: Browser
) -> None:
    # A field changes line breaks, a page control characters, and "two hours ago" is soon another.
    first = olga.http.get("/choose/redrive", params={"message": "a\nb\x1b", "since": "2h"}).text
    form = re.search(r'<form class="card".*?</form>', first, re.DOTALL)
    assert form is not None and 'name="message"' not in form[0]
    fields = re.findall(r'name="(\w+)" value="([^"]*)"', form[0])
    again = olga.http.get("/choose/redrive", params=[(name, unescape(v)) for name, v in fields])
    words = [re.search(r'<span class="filter">(.*?)</span>', one) for one in (first, again.text)]
    assert words[0] and words[1] and words[0][1] == words[1][1]
    everything = olga.http.get("/choose/redrive?all=yes").text
    assert '<input type="hidden" name="all" value="yes">' in everything
    assert re.fullmatch(r"messages a\\nb\\x1b, since [0-9T:.-]+Z", unescape(words[0][1]))


def test_as_many_failures_are_not_the_ones_that_were_seen(
    planted: Planted, olga: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = "request-00000001", "request-00000002"

    def discards(name: str) -> int:
        seen = previewed(olga.http.get(f"/choose/discard?id={name}").text)
        return olga.send("/act/discard", preview=seen, because="x").status_code

    assert discards(one) == 303
    where = "/choose/redrive?reason=BANK_CLOSED"
    seen = previewed(olga.http.get(where).text)
    undo = olga.form("undo_discard", f"/request?id={one}")
    assert olga.send("/act/undo_discard", **undo, because="x").status_code == 303
    assert discards(other) == 303
    assert olga.send("/act/redrive", page=where, preview=seen, because="x").status_code == 409
    assert planted.redrives() == []

    # It fails once more, for another reason, before its discard is confirmed.
    seen = previewed(olga.http.get(f"/choose/discard?id={one}").text)
    engine = create_engine(planted.settings.journal.url, poolclass=NullPool)
    with engine.begin() as connection:
        of_it = update(request).where(request.c.request_id == one)
        connection.execute(of_it.values(generation=2, code="CHARGED_TWICE"))
    before = len(planted.actions())
    assert olga.send("/act/discard", preview=seen, because="x").status_code == 409
    assert len(planted.actions()) == before
    # So it is between the last look and the act.
    seen = previewed(olga.http.get(f"/choose/discard?id={one}").text)

    def late(*given: Any, **named: Any) -> Any:
        with engine.begin() as connection:
            connection.execute(of_it.values(generation=3))
        return discard_letters(*given, **named)

    monkeypatch.setattr("consumer.console.acts.discard_letters", late)
    assert olga.send("/act/discard", preview=seen, because="x").status_code == 409
    assert len(planted.actions()) == before
    # A reason of blanks is no missing one: its letters are none.
    page = olga.http.get("/choose/discard", params={"topic": planted.topic, "reason": " "}).text
    assert "0 dead letters" in page


def test_a_page_held_open_undoes_no_discard_that_its_person_has_not_seen(
    planted: Planted, opened: Open, people: ExitStack
) -> None:
    olga, otto = people.enter_context(logged_in(opened(planted.settings), "olga", "otto"))
    one = "request-00000001"

    def discards(person: Browser, because: str) -> None:
        seen = previewed(person.http.get(f"/choose/discard?id={one}").text)
        assert person.send("/act/discard", preview=seen, because=because).status_code == 303

    def undoes(person: Browser, form: dict[str, str]) -> httpx.Response:
        return person.send("/act/undo_discard", **form, because="no test")

    discards(olga, "a test")
    held = olga.form("undo_discard", f"/request?id={one}")
    assert "olga has discarded it at 20" in olga.http.get(f"/request?id={one}").text
    assert undoes(otto, otto.form("undo_discard", f"/request?id={one}")).status_code == 303
    discards(otto, "refunded by hand")
    before = len(planted.actions())
    late = undoes(olga, held)
    said = unescape(late.text)
    assert late.status_code == 409 and "is not the one that stands now; since then" in said
    assert "otto has undone its discard at 20" in said and "(refunded by hand)" in said
    old = olga.send("/act/undo_discard", request_id=one, because="x")
    assert (
        old.status_code == 400 and "load it again" in old.text and "of your login" not in old.text
    )
    assert len(planted.actions()) == before
    assert "otto has discarded it at 20" in olga.http.get(f"/request?id={one}").text
    assert undoes(olga, olga.form("undo_discard", f"/request?id={one}")).status_code == 303


@pytest.mark.parametrize("kind", [REDRIVE, DISCARD])
def test_a_preview_that_this_console_has_not_made_is_refused(
    planted: Planted, olga: Browser, kind: str
) -> None:
    other = DISCARD if kind == REDRIVE else REDRIVE
    of_other = previewed(olga.http.get(f"/choose/{other}?all=yes").text)
    for forged in ("", "W10.aaa.bbb", of_other, of_other[:-1], "\x00"):
        answer = olga.send(f"/act/{kind}", preview=forged, because=BECAUSE)
        assert answer.status_code == 400 and "this preview is old" in answer.text
    assert planted.redrives() == [] and planted.actions() == []
    hostile = "</script><script>alert(1)</script>"
    page = olga.http.get(f"/choose/{kind}", params={"reason": hostile, "since": "soon"})
    assert "write 15m, 2h or 7d" in page.text and "<script" not in page.text
    page = olga.http.get(f"/choose/{kind}", params={"reason": hostile})
    assert "0 dead letters" in page.text and "<script" not in page.text
    assert 'name="preview"' not in page.text


def test_whose_discard_comes_too_late_is_told(
    planted: Planted, olga: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def second(*given: Any, **named: Any) -> Any:
        discard_letters(*given, **named | {"by": "otto"})
        return discard_letters(*given, **named)

    seen = previewed(olga.http.get("/choose/discard?all=yes").text)
    monkeypatch.setattr("consumer.console.acts.discard_letters", second)
    answer = olga.send("/act/discard", preview=seen, because="x")
    assert answer.status_code == 409 and "somebody was quicker" in answer.text
    assert {one["by"] for one in planted.actions()} == {"otto"}


def test_a_charge_twice_is_warned_of_and_asks_for_a_word(planted: Planted, olga: Browser) -> None:
    where = "/choose/redrive?id=request-00000002"
    before = previewed(olga.http.get(where).text)
    ask_anew(planted, "request-00000002")
    answer = olga.send("/act/redrive", page=where, preview=before, because=BECAUSE)
    assert answer.status_code == 409 and "asked-anew" in answer.text
    assert "may charge twice" in answer.text
    form = {"preview": previewed(answer.text), "because": BECAUSE}
    assert olga.send("/act/redrive", page=where, **form).status_code == 409
    assert planted.redrives() == []
    redrive_id = redrive_of(olga.send("/act/redrive", page=where, **form, all_the_same="yes"))
    ended(planted, redrive_id)
    assert planted.sent(redrive_id) == Counter(["request-00000002"])


def test_failures_of_one_wish_that_are_sent_back_together_are_warned_of(
    planted: Planted, olga: Browser
) -> None:
    first, second, alone = (f"request-{number:08d}" for number in (2, 3, 4))
    fail_anew(planted, first, second)
    where = "/choose/redrive?all=yes"
    page = olga.http.get(where).text
    said = re.compile(rf"{first}</a>\s*: \s*<a [^>]*>{second}</a>\s*([a-z ]+)")
    assert "may charge twice" in page and said.findall(page) == ["failed too"]
    form = {"preview": previewed(page), "because": BECAUSE}
    assert olga.send("/act/redrive", page=where, **form).status_code == 409
    assert planted.redrives() == []
    for one in (second, alone):
        assert "all_the_same" not in olga.http.get(f"/choose/redrive?id={one}").text
    seen = previewed(olga.http.get(f"/choose/redrive?id={first}").text)
    # One person sends the later one back: the other, who has seen it open, looks again.
    form = {"preview": previewed(olga.http.get(f"/choose/redrive?id={second}").text)}
    other = redrive_of(olga.send("/act/redrive", page=where, **form, because=BECAUSE))
    eventually(lambda: planted.redrive().owner is None, what=other, timeout_s=60)
    form = {"preview": seen, "because": BECAUSE, "all_the_same": "yes"}
    again = olga.send("/act/redrive", page=where, **form)
    assert again.status_code == 409 and said.findall(again.text) == ["is not decided"]
    form["preview"] = previewed(again.text)
    redrive_id = redrive_of(olga.send("/act/redrive", page=where, **form))
    eventually(lambda: planted.sent(redrive_id) == Counter([first]), timeout_s=60)


def test_who_goes_on_is_asked_about_what_succeeded_since_the_page(
    planted: Planted, olga: Browser
) -> None:
    seen = previewed(olga.http.get("/choose/redrive?all=yes").text)
    answer = olga.send("/act/redrive", preview=seen, because=BECAUSE, rate="0.1")
    redrive_id = redrive_of(answer)
    form = {"redrive_id": redrive_id, "because": BECAUSE}
    pause = olga.form("pause_redrive", f"/redrives/{redrive_id}")
    assert olga.send("/act/pause_redrive", **pause, because=BECAUSE).status_code == 303
    ended(planted, redrive_id)
    page = f"/redrives/{redrive_id}?go-on=yes"
    assert "all_the_same" not in olga.http.get(page).text
    form["seen"] = seen_of(olga, redrive_id)
    left = {f"request-{number:08d}" for number in range(LETTERS)} - {*planted.sent(redrive_id)}
    ask_anew(planted, min(left))
    for said in ({}, {"all_the_same": "of another warning"}):
        again = olga.send("/act/resume_redrive", page=page, **form, **said)
        assert again.status_code == 409 and "may charge twice" in again.text
        assert "Nothing was done" in again.text
    assert planted.redrive().owner is None and min(left) not in planted.sent(redrive_id)
    (warned,) = re.findall(r'name="all_the_same" value="([^"]+)"', again.text)
    assert redrive_of(olga.send("/act/resume_redrive", **form, all_the_same=warned)) == redrive_id
    eventually(lambda: planted.redrive().state == DONE, timeout_s=60)
    assert planted.sent(redrive_id)[min(left)] == 1


def test_letters_of_a_topic_that_was_made_anew_are_left_and_named(
    planted: Planted, olga: Browser
) -> None:
    where = "/choose/redrive?all=yes"
    form = {"preview": previewed(olga.http.get(where).text), "because": BECAUSE}
    redrive_id = redrive_of(olga.send("/act/redrive", page=where, **form, rate="0.1"))
    page, why = f"/redrives/{redrive_id}", f"{planted.box} was deleted and made anew"
    pause = olga.form("pause_redrive", page) | {"because": "the bank asks for a pause"}
    assert olga.send("/act/pause_redrive", page=page, **pause).status_code == 303
    ended(planted, redrive_id)
    before = planted.sent(redrive_id)
    planted.box_made_anew()
    # Nor is the preview one of what lies there now.
    late = olga.send("/act/redrive", page=where, **form)
    assert late.status_code == 409 and f"{LETTERS} then, 0 now" in late.text and why in late.text
    go_on = olga.form("resume_redrive", f"{page}?go-on=yes") | {"because": "go on"}
    assert redrive_of(olga.send("/act/resume_redrive", page=page, **go_on)) == redrive_id
    ended(planted, redrive_id)
    shown = olga.http.get(page).text
    assert why in shown and ">incomplete<" in shown and ">done<" not in shown
    assert ">incomplete<" in olga.http.get("/redrives").text
    assert planted.sent(redrive_id) == before


def test_a_redrive_is_paused_gone_on_with_and_cancelled(planted: Planted, olga: Browser) -> None:
    where = "/choose/redrive?all=yes"
    form = {"preview": previewed(olga.http.get(where).text), "because": BECAUSE}
    for rate in ("0", "nan", "inf", "fast", "-1"):
        assert olga.send("/act/redrive", page=where, **form, rate=rate).status_code == 400, rate
    redrive_id = redrive_of(olga.send("/act/redrive", page=where, **form, rate="0.1"))
    page = f"/redrives/{redrive_id}"
    assert "Pause" in olga.http.get(page).text
    assert '<noscript><meta http-equiv="refresh"' in olga.http.get(page).text
    named = {"redrive_id": redrive_id}
    first, cancel = olga.form("pause_redrive", page), olga.form("cancel_redrive", page)
    assert olga.send("/act/pause_redrive", page=page, **first).status_code == 400
    first["because"] = "the bank asks for a pause"
    assert olga.send("/act/pause_redrive", page=page, **first).status_code == 303
    ended(planted, redrive_id)
    assert olga.send("/act/pause_redrive", page=page, **first).status_code == 409
    assert "the bank asks for a pause" in olga.http.get("/actions").text
    assert "stopped" in olga.http.get(page).text

    assert "Letters a second" in olga.http.get(f"{page}?go-on=yes").text
    named["because"] = "go on"
    seen = seen_of(olga, redrive_id)
    assert olga.send("/act/resume_redrive", page=page, **named).status_code == 400
    resumed = olga.send("/act/resume_redrive", page=page, **named, seen=seen, rate="0.1")
    assert redrive_of(resumed) == redrive_id
    # Of a page from before somebody has gone on with it.
    for act, seen_then in (("pause_redrive", first), ("cancel_redrive", cancel)):
        late = olga.send(f"/act/{act}", page=page, **seen_then | {"because": "enough"})
        assert late.status_code == 409 and "somebody has gone on with" in late.text, act
    assert planted.redrive().state == RUNNING
    cancel = olga.form("cancel_redrive", page) | {"because": "go on"}
    assert olga.send("/act/cancel_redrive", page=page, **cancel).status_code == 303
    eventually(lambda: "cancelled" in olga.http.get(page).text)
    assert olga.send("/act/cancel_redrive", page=page, **cancel).status_code == 409
    eventually(lambda: "Pause" not in olga.http.get(page).text, timeout_s=60)
    # Of a page from before somebody cancelled it.
    late = olga.send("/act/resume_redrive", page=page, **named, seen=seen)
    assert late.status_code == 409 and "has changed since you looked: it is cancelled" in late.text
    named["seen"] = seen_of(olga, redrive_id)
    assert redrive_of(olga.send("/act/resume_redrive", page=page, **named)) == redrive_id
    eventually(lambda: planted.redrive().state == DONE, timeout_s=60)
    assert set(planted.sent(redrive_id).values()) == {1}
    assert len(planted.sent(redrive_id)) == LETTERS
    nowhere = {"redrive_id": "nowhere", "because": "x", "process": ""}
    assert olga.send("/act/cancel_redrive", **nowhere).status_code == 409
    assert olga.http.get("/redrives/nowhere").status_code == 404


def test_a_redrive_whose_process_was_killed_is_cancelled(planted: Planted, olga: Browser) -> None:
    seen = previewed(olga.http.get("/choose/redrive?all=yes").text)
    redrive_id = redrive_of(olga.send("/act/redrive", preview=seen, because=BECAUSE, rate="0.1"))
    page, because = f"/redrives/{redrive_id}", {"because": "enough"}
    pause = olga.form("pause_redrive", page)
    assert olga.send("/act/pause_redrive", **pause | because).status_code == 303
    ended(planted, redrive_id)
    engine = create_engine(planted.settings.journal.url, poolclass=NullPool)

    def leave_to(owner: str) -> None:
        rows = update(redrive).where(redrive.c.redrive_id == redrive_id)
        with engine.begin() as connection:
            connection.execute(rows.values(owner=owner, updated_at=epoch_ms() - 2 * SILENT_MS))

    leave_to("elsewhere-1-killed")
    assert "stopped" in olga.http.get(page).text
    cancel = olga.form("cancel_redrive", page)
    leave_to("elsewhere-2-goes-on")
    late = olga.send("/act/cancel_redrive", **cancel | because)
    assert late.status_code == 409 and "somebody has gone on with" in late.text
    again = olga.form("cancel_redrive", page)
    assert olga.send("/act/cancel_redrive", **again | because).status_code == 303
    assert planted.redrive().state == CANCELLED


def test_a_redrive_whose_row_is_in_the_former_database_says_why_it_stopped(
    planted: Planted, olga: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = olga.http.get("/redrives/r-moved")
    assert gone.status_code == 404 and "there is no redrive r-moved" in gone.text
    stopped = RedriveThread(is_at_work=False, fault="its name leads to another database <b>")
    monkeypatch.setattr(BackgroundRedrives, "find", lambda *_: stopped)
    said = olga.http.get("/redrives/r-moved")
    assert said.status_code == 404 and "leads to another database &lt;b&gt;" in said.text


@pytest.mark.parametrize("end", ["killed", "asked"])
def test_a_console_that_ends_leaves_a_redrive_that_the_command_goes_on_with(
    planted: Planted, tmp_path: Path, end: str
) -> None:
    argv = (sys.executable, "-m", "consumer.console", "--port", "0")
    console = StartedProgram(
        (*argv, "--config", str(planted.config)), log=tmp_path / "console.log", environ=os.environ
    )
    try:
        url = f"http://127.0.0.1:{console.told('console.started')['port']}"
        with httpx.Client(base_url=url, timeout=60) as client, browsing(client) as olga:
            assert olga.login("olga").status_code == 303
            where = "/choose/redrive?all=yes"
            form = {"preview": previewed(olga.http.get(where).text), "because": BECAUSE}
            answer = olga.send("/act/redrive", page=where, **form, rate="0.1")
            redrive_id = redrive_of(answer)
            # It stands in the journal as soon as there is an answer.
            assert planted.redrive().redrive_id == redrive_id
            eventually(lambda: planted.sent(redrive_id), timeout_s=60, what="a first letter")
        if end == "asked":
            assert console.stop() == ExitCode.FINE
    finally:
        console.kill()
    # Asked to end it leaves the redrive in order; killed it is known as gone by its process.
    assert (planted.redrive().owner is None) == (end == "asked")
    assert planted.redrive().state == RUNNING
    assert 0 < sum(planted.sent(redrive_id).values()) < LETTERS
    ending = resume(planted.settings, redrive_id, by="otto", because=None, pace=RedrivePace())
    assert ending.state == DONE
    assert set(planted.sent(redrive_id).values()) == {1}
    assert len(planted.sent(redrive_id)) == LETTERS


def test_a_viewer_sees_redrives_and_no_button(
    planted: Planted, opened: Open, people: ExitStack, tmp_path: Path
) -> None:
    settings = with_people(planted.settings, tmp_path)
    vera, olga = people.enter_context(logged_in(opened(settings), "vera", "olga"))
    for kind in (REDRIVE, DISCARD):
        assert vera.http.get(f"/choose/{kind}?all=yes").status_code == 403
    # Else there is no button for anybody.
    eventually(lambda: "being read" not in vera.http.get("/letters").text, what="the letters")
    seen = {name: one.http.get("/letters").text for name, one in (("vera", vera), ("olga", olga))}
    assert "/choose/redrive?all=yes" in unescape(seen["olga"])
    assert "/choose/" not in seen["vera"]
    form = {"preview": previewed(olga.http.get("/choose/redrive?all=yes").text), "because": "x"}
    redrive_id = redrive_of(olga.send("/act/redrive", **form))
    ended(planted, redrive_id)
    one = f"/redrives/{redrive_id}"
    assert vera.http.get(f"{one}?go-on=yes").status_code == 403
    for page in ("/redrives", one, "/request?id=request-00000001"):
        assert 'action="/act/' not in vera.http.get(page).text
        assert "/choose/" not in vera.http.get(page).text
