"""Letters of other systems are counted, sent back once, discarded and edited as by the commands."""

import re
from collections import Counter
from contextlib import ExitStack
from html import unescape

import pytest

from consumer.journal.actions import ActionKind
from consumer.journal.redrive.redrive_row import DONE
from consumer.journal.redrive.redrive_rule import IN_WORDS, Redrivable
from feedback.kafka.scan import KafkaScan
from feedback.records.envelope import Record
from tests.consumer.console.conftest import Open, PlantLetters
from tests.consumer.console.others import SYSTEMS, VALUE, showing, topic_of
from tests.consumer.console.people import Browser, logged_in
from tests.consumer.console.test_in_browser import on_call
from tests.consumer.console.test_pages import HOSTILE, text_of
from tests.consumer.console.test_redrives import ended, previewed, redrive_of
from tests.consumer.console.test_stretches import seen
from tests.consumer.dlq.conftest import Dlq
from tests.consumer.dlq.conftest import dlq as dlq
from tests.consumer.dlq.redrive.planted import Planted
from tests.eventually import eventually
from tests.kit.axe import violations

pytestmark = [pytest.mark.timeout(400), pytest.mark.usefixtures("no_given_servers")]

LETTERS = 3
# At the lowest rate a redrive of them outlasts any test.
MANY = 60
BOX = re.compile(r'type="checkbox" name="(\w+)" value="yes" required')
LINK = re.compile(r'href="(/[^"]+)"')


@pytest.fixture
def planted(plant_letters: PlantLetters) -> Planted:
    """Return a letter of a group without a worker, and its topic."""
    return plant_letters(1)


class Case:
    """A console that shows the letters of one other system, and its people."""

    def __init__(self, planted: Planted, dlq: str, opened: Open, people: ExitStack) -> None:
        self.planted = planted
        self.dlq = dlq
        self.console = opened(showing(planted.settings, dlq))
        self._people = people

    def browser(self, name: str) -> Browser:
        """Return the browser of a person."""
        (one,) = self._people.enter_context(logged_in(self.console, name))
        return one

    def sent(self) -> list[Record]:
        """Return all records in the topic of origin."""
        with KafkaScan(self.planted.settings.kafka, committed_only=False) as scan:
            pages = scan.pages(scan.spans([self.planted.topic]))
            return [one for page in pages for one in page.records]

    def ids(self, browser: Browser) -> list[str]:
        """Return the ids of the letters, as the page lists them."""
        page = seen(browser, dlq=self.dlq)
        return sorted(set(re.findall(r'<a class="id" href="/request\?id=([^"&]+)', page)))


@pytest.fixture(params=SYSTEMS)
def case(planted: Planted, opened: Open, people: ExitStack, request: pytest.FixtureRequest) -> Case:
    """Return the console over letters of each system."""
    return Case(planted, topic_of(planted, request.param, LETTERS), opened, people)


@pytest.fixture
def spring(planted: Planted, opened: Open, people: ExitStack) -> Case:
    """Return the console over letters of Spring."""
    return Case(planted, topic_of(planted, "spring", LETTERS), opened, people)


@pytest.fixture
def many(planted: Planted, opened: Open, people: ExitStack) -> Case:
    """Return the console over so many letters of Spring that a slow redrive is at work."""
    return Case(planted, topic_of(planted, "spring", MANY), opened, people)


def sends(olga: Browser, page: str) -> str:
    """Send the letters of a preview back, with each word that it asks for; return the redrive."""
    words = dict.fromkeys(BOX.findall(page), "yes")
    return redrive_of(olga.send("/act/redrive", preview=previewed(page), because="ok", **words))


def test_they_are_seen_and_sent_back_once_as_by_the_command(case: Case, dlq: Dlq) -> None:
    olga, planted = case.browser("olga"), case.planted
    # The group's own page has them not, and leads to theirs.
    own = seen(olga)
    assert "1 dead letter that may need" in own and f'href="/letters?dlq={case.dlq}"' in own
    page = seen(olga, dlq=case.dlq)
    assert f"{LETTERS} dead letters in {case.dlq} that may need" in page and "3 unknown" in page
    assert f"onceward-dlq list --dlq {case.dlq}" in page and "alert(1)" in page
    (link,) = (one for one in LINK.findall(page) if one.startswith("/choose/redrive?"))

    # Nothing says that they have not run: the page says what the command says.
    preview = text_of(olga.http.get(unescape(link)))
    said = dlq(planted.config, "redrive", "--dlq", case.dlq, "--dry-run")
    assert f"{LETTERS:,} left: {IN_WORDS[Redrivable.NO_ROW]}" in said.stdout
    assert f"{LETTERS} left: {IN_WORDS[Redrivable.NO_ROW]}" in preview
    assert "0 dead letters</b> would be sent back" in preview and 'name="preview"' not in preview
    (link,) = (one for one in LINK.findall(preview) if one.endswith("&unknown=yes"))
    preview = text_of(olga.http.get(link))
    said = dlq(planted.config, "redrive", "--dlq", case.dlq, "--unknown", "--dry-run")
    (warning,) = said.stdout.splitlines()[1:]
    assert warning.strip() == "nothing says whether 3 letters without a journal row have run"
    assert warning.strip() in preview and BOX.findall(preview) == ["unknown"]
    form = {"preview": previewed(preview), "because": "the bank is back"}
    refused = olga.send("/act/redrive", **form)
    assert refused.status_code == 409 and "Say that you want it all the same" in refused.text
    assert planted.redrives() == [] and case.sent() == []

    redrive_id = redrive_of(olga.send("/act/redrive", **form, unknown="yes"))
    ended(planted, redrive_id)
    names = case.ids(olga)
    assert planted.sent(redrive_id) == Counter(names) and len(names) == LETTERS
    for one in case.sent():
        assert (one.value, dict(one.headers)["theirs"]) == (VALUE, HOSTILE.encode())
        assert not any(name.startswith(SYSTEMS["connect"].prefix) for name, _ in one.headers)
    done = {(one["request_id"], one["action"], one["by"]) for one in planted.actions()}
    assert done == {(name, ActionKind.REDRIVE, "olga") for name in names}
    shown = text_of(olga.http.get(f"/redrives/{redrive_id}"))
    assert f"in {case.dlq}" in shown and "letters without a journal row" in shown

    # A second redrive would run them twice, and takes none.
    page = text_of(olga.http.get(link))
    assert f"{LETTERS} left: {IN_WORDS[Redrivable.SENT_BEFORE]}" in page
    assert "0 dead letters</b> would be sent back" in page and 'name="preview"' not in page
    late = olga.send("/act/redrive", **form, unknown="yes")
    assert late.status_code == 409 and "3 then, 0 now" in late.text


def test_once_more_is_warned_of_and_a_second_click_sends_nothing(many: Case, dlq: Dlq) -> None:
    olga, otto, planted = many.browser("olga"), many.browser("otto"), many.planted
    where = f"/choose/redrive?dlq={many.dlq}&unknown=yes"
    ended(planted, sends(olga, text_of(olga.http.get(where))))
    page = text_of(olga.http.get(where))
    (link,) = (one for one in LINK.findall(page) if "&again=yes" in one)
    page, of_otto = text_of(olga.http.get(link)), text_of(otto.http.get(link))
    words = ("redrive", "--dlq", many.dlq, "--unknown", "--again", "--dry-run")
    said = dlq(planted.config, *words)
    warnings = [one.strip() for one in said.stdout.splitlines()[1:]]
    assert warnings[1] == f"{MANY} letters were sent back already: they may run twice"
    assert all(one in page for one in warnings) and BOX.findall(page) == ["unknown", "again"]
    form = {"preview": previewed(page), "because": "the other system lost them", "rate": "0.1"}
    for box in ({}, {"unknown": "yes"}, {"again": "yes"}):
        answer = olga.send("/act/redrive", **form, **box)
        assert answer.status_code == 409 and "all the same" in answer.text, box
    form |= {"unknown": "yes", "again": "yes"}
    redrive_id = redrive_of(olga.send("/act/redrive", **form))
    # A second click, and another person who has seen the same.
    for one, preview in ((olga, form["preview"]), (otto, previewed(of_otto))):
        second = one.send("/act/redrive", **form | {"preview": preview})
        assert second.status_code == 409 and redrive_id in second.text
    eventually(lambda: planted.sent(redrive_id), timeout_s=60, what="a letter that is sent")
    cancel = olga.form("cancel_redrive", f"/redrives/{redrive_id}") | {"because": "enough"}
    assert olga.send("/act/cancel_redrive", **cancel).status_code == 303
    eventually(lambda: "cancelled" in olga.http.get(f"/redrives/{redrive_id}").text)
    assert len(planted.redrives()) == 2
    eventually(lambda: all(one.owner is None for one in planted.redrives()), timeout_s=60)
    before = len(many.sent())
    # It has ended, and has sent one: that is another preview.
    late = otto.send("/act/redrive", **form | {"preview": previewed(of_otto)})
    assert late.status_code == 409 and "It has changed since you looked" in late.text
    assert len(many.sent()) == before
    shown = text_of(olga.http.get(f"/redrives/{redrive_id}"))
    assert "those of them that were sent back before" in shown


def test_one_is_looked_at_discarded_and_opened_again(spring: Case) -> None:
    olga, paul, vera = (spring.browser(name) for name in ("olga", "paul", "vera"))
    planted = spring.planted
    name = spring.ids(olga)[0]
    where = f"/request?id={name}&dlq={spring.dlq}"
    page = text_of(vera.http.get(where))
    assert "Written by" in page and "spring, of billing" in page and VALUE.decode() not in page
    assert f"onceward-dlq redrive --dlq {spring.dlq} --unknown" in page
    assert "/choose/" not in page and 'action="/act/' not in page.replace("/act/logout", "")
    assert vera.http.get(f"/choose/redrive?dlq={spring.dlq}").status_code == 403
    look = {"request_id": name, "dlq": spring.dlq}
    assert vera.send("/act/look", **look).status_code == 403
    assert planted.actions() == []
    shown = text_of(paul.send("/act/look", page=where, **look))
    assert '"amount": 5' in shown and "theirs" in shown and "kafka_dlt-original-offset" in shown

    page = text_of(olga.http.get(where))
    (link,) = (one for one in LINK.findall(page) if one.startswith("/choose/discard?"))
    seal = previewed(olga.http.get(link).text)
    done = olga.send("/act/discard", preview=seal, because="refunded by hand")
    assert done.headers["location"] == where
    page = text_of(olga.http.get(where))
    assert "discarded" in page and "Undo the discard" in page
    left = text_of(olga.http.get(f"/choose/redrive?dlq={spring.dlq}&unknown=yes"))
    assert f"{LETTERS - 1} dead letters</b> would be" in left
    form = olga.form("undo_discard", where)
    assert form.items() >= look.items()
    undo = olga.send("/act/undo_discard", **form, because="not refunded")
    assert undo.headers["location"] == where and "Send it back" in olga.http.get(where).text
    kinds = [(one["action"], one["by"]) for one in planted.actions()]
    assert kinds == [
        (ActionKind.LOOK, "paul"),
        (ActionKind.DISCARD, "olga"),
        (ActionKind.UNDO, "olga"),
    ]


def test_what_was_sent_back_is_discarded_by_its_own_box_alone(spring: Case) -> None:
    olga = spring.browser("olga")
    redrive = f"/choose/redrive?dlq={spring.dlq}&unknown=yes"
    ended(spring.planted, sends(olga, text_of(olga.http.get(redrive))))
    page = text_of(olga.http.get(f"/choose/discard?dlq={spring.dlq}"))
    assert f"{LETTERS} left: {IN_WORDS[Redrivable.SENT_BEFORE]}" in page
    assert 'name="preview"' not in page and 'name="unknown"' not in page
    (link,) = (one for one in LINK.findall(page) if one.endswith("&again=yes"))
    page = text_of(olga.http.get(link))
    done = olga.send("/act/discard", preview=previewed(page), because="they have run")
    assert done.status_code == 303
    assert "No dead letter needs a decision" in _anew(spring, olga)


def _anew(case: Case, olga: Browser) -> str:
    """Return the page of the letters once they were read again."""
    eventually(lambda: "0 dead letters" in seen(olga, dlq=case.dlq), timeout_s=60)
    return seen(olga, dlq=case.dlq)


def test_a_value_is_edited_into_a_new_request(spring: Case) -> None:
    petra, planted = spring.browser("petra"), spring.planted
    name = spring.ids(petra)[0]
    form = {"request_id": name, "dlq": spring.dlq}
    assert '"amount": 5' in text_of(petra.send("/act/edit", **form))
    form["value"] = '{"amount": 7}'
    left = text_of(petra.send("/act/compare", **form))
    assert IN_WORDS[Redrivable.NO_ROW] in left and 'name="preview"' not in left
    page = text_of(petra.send("/act/compare", **form, unknown="yes"))
    command = f"onceward-dlq redrive --dlq {spring.dlq} --unknown --value"
    assert command in page and BOX.findall(page) == ["unknown"]
    words = {"preview": previewed(page), "because": "a wrong amount", "last": name[-4:]}
    assert petra.send("/act/replace", **words).status_code == 409
    ended(planted, redrive_of(petra.send("/act/replace", **words, unknown="yes")))
    (sent,) = spring.sent()
    assert (
        sent.value == b'{"amount":7}' and dict(sent.headers)["onceward-replaces"] == name.encode()
    )
    assert planted.redrive().state == DONE


def test_a_topic_that_the_settings_do_not_name_is_not_read(spring: Case) -> None:
    petra = spring.browser("petra")
    name = spring.ids(petra)[0]
    for topic in (spring.planted.topic, HOSTILE, f"{spring.dlq} "):
        for path in ("/letters", "/choose/redrive", "/choose/discard", f"/request?id={name}"):
            answer = petra.http.get(path, params={"dlq": topic, "unknown": "yes", "all": "yes"})
            assert answer.status_code == 404 and "does not name" in text_of(answer), path
        for act in ("look", "edit", "compare", "undo_discard"):
            form = {"request_id": name, "dlq": topic, "because": "x", "value": "{}"}
            assert petra.send(f"/act/{act}", **form).status_code == 404, act
    assert spring.planted.actions() == []


def test_a_topic_that_is_not_there_is_said(
    planted: Planted, opened: Open, people: ExitStack
) -> None:
    olga = Case(planted, "no-such-topic", opened, people).browser("olga")
    assert "there is no topic no-such-topic" in seen(olga, dlq="no-such-topic")
    assert "1 dead letter that may need" in seen(olga)


def test_a_person_on_call_sends_them_back_in_a_browser(spring: Case) -> None:
    address = str(spring.console.base_url).rstrip("/")
    with on_call(address) as olga:
        olga.opens("/letters")
        olga.clicks_on(spring.dlq)
        while "being read" in olga.sees:
            olga.opens(f"/letters?dlq={spring.dlq}")
        olga.reads(f"{LETTERS} dead letters in {spring.dlq}", "alert(1)")
        found = {"letters": violations(olga.browser)}
        olga.clicks_on("Send all back")
        olga.reads("0 dead letters would be sent back", IN_WORDS[Redrivable.NO_ROW])
        found["left"] = violations(olga.browser)
        olga.clicks_on("Take them too")
        olga.reads("nothing says whether 3 letters without a journal row have run")
        found["taken"] = violations(olga.browser)
        olga.types("because", "the bank is back")
        olga.browser.find_element("css selector", "input[name=unknown][required]").click()
        olga.clicks_on(f"Send back {LETTERS} dead letters")
        olga.reads(f"{LETTERS} of {LETTERS} chosen", f"in {spring.dlq}")
        found["redrive"] = violations(olga.browser)
        for path in (f"/letters?dlq={spring.dlq}", f"/choose/redrive?dlq={spring.dlq}&unknown=yes"):
            olga.browser.execute_cdp_cmd(
                "Emulation.setDeviceMetricsOverride",
                {"width": 360, "height": 900, "deviceScaleFactor": 1, "mobile": False},
            )
            olga.opens(path)
            wide = olga.browser.execute_script("return document.documentElement.scrollWidth")
            assert wide <= 360, path
        said = olga.browser.get_log("browser")  # type: ignore[no-untyped-call]
    assert {page: ones for page, ones in found.items() if ones} == {}
    assert [one["message"] for one in said if one["source"] == "security"] == []
    assert len(spring.sent()) == LETTERS
