"""A value is edited into a new request, as it was seen, by who may see it and act."""

import json
import re
from contextlib import ExitStack
from html import unescape
from pathlib import Path

import httpx
import pytest

from consumer.dlq.redrive.record import sent_by
from consumer.handlers.request import idempotency_key
from consumer.journal.actions import ActionKind
from consumer.journal.redrive.redrive_row import DONE
from consumer.journal.redrive.reopening import replacement_id
from feedback.kafka.scan import KafkaScan
from feedback.records.envelope import Record
from feedback.settings.settings import load
from feedback.status import State
from tests.consumer.console.conftest import Open, PlantLetters, console_of
from tests.consumer.console.people import Browser, logged_in, with_people
from tests.consumer.console.test_pages import HOSTILE, text_of
from tests.consumer.console.test_redrives import (
    BECAUSE,
    ask_anew,
    ended,
    previewed,
    redrive_of,
)
from tests.consumer.dlq.redrive.planted import Planted
from tests.consumer.features.dead_letters.conftest import MakeBox
from tests.eventually import eventually

OLD = "request-00000002"
CARD = "4111111111111111"
TEXTAREA = re.compile(r'<textarea class="value"[^>]*>\n(.*?)</textarea>', re.DOTALL)

pytestmark = pytest.mark.usefixtures("no_given_servers")


@pytest.fixture
def planted(plant_letters: PlantLetters) -> Planted:
    """Return a few letters of a group without a worker."""
    return plant_letters(4)


@pytest.fixture
def petra(planted: Planted, opened: Open, people: ExitStack) -> Browser:
    """Return the browser of an operator who may see values."""
    (browser,) = people.enter_context(logged_in(opened(planted.settings), "petra"))
    return browser


def shown(answer: httpx.Response) -> str:
    """Return the text of the form, as a browser has it."""
    (found,) = TEXTAREA.findall(answer.text)
    return unescape(found)


def sends(browser: Browser, act: str, request_id: str, **fields: str) -> httpx.Response:
    """Send a form about a request; a browser has line ends of its own."""
    fields = {name: text.replace("\n", "\r\n") for name, text in fields.items()}
    return browser.send(f"/act/{act}", request_id=request_id, **fields)


def sent(planted: Planted) -> list[Record]:
    """Return the records of the topic: nothing else is in it."""
    with KafkaScan(planted.settings.kafka, committed_only=False) as scan:
        pages = list(scan.pages(scan.spans([planted.topic])))
    return [one for page in pages for one in page.records]


def kinds(planted: Planted) -> list[str]:
    """Return the actions, in order."""
    return [one["action"] for one in planted.actions()]


def compared(browser: Browser, request_id: str = OLD) -> httpx.Response:
    """Edit the value of a letter, and return the page of what would be sent."""
    text = shown(sends(browser, "edit", request_id))
    return sends(browser, "compare", request_id, value=text.replace('"number": 2', '"number": 7'))


def test_what_was_edited_is_sent_as_a_new_request(planted: Planted, petra: Browser) -> None:
    assert "Edit its value" in petra.http.get(f"/request?id={OLD}").text
    page = sends(petra, "edit", OLD)
    assert shown(page) == json.dumps({"number": 2, "filling": "x" * 1024}, indent=2)
    assert kinds(planted) == [ActionKind.LOOK]
    page = compared(petra)
    seen = text_of(page)
    assert '-  "number": 2,' in seen and '+  "number": 7,' in seen
    value = f'{{"number":7,"filling":"{"x" * 1024}"}}'
    assert f"onceward-dlq redrive --value '{value}' {OLD}" in seen
    assert sent(planted) == []

    form = {"preview": previewed(page.text), "because": BECAUSE, "last": OLD[-4:]}
    for wrong in ({"because": " "}, {"last": "0003"}, {"preview": "W10.aaa.bbb"}):
        assert petra.send("/act/replace", **form | wrong).status_code == 400, wrong
    assert planted.redrives() == []
    redrive_id = redrive_of(petra.send("/act/replace", **form))
    ended(planted, redrive_id)
    (record,) = sent(planted)
    assert (record.value, record.key) == (value.encode(), b"2")
    assert sent_by(record.headers, redrive_id) == OLD
    new = dict(record.headers)["onceward-request-id"].decode()
    stands = planted.redrive()
    assert (stands.state, stands.by, stands.reason) == (DONE, "petra", BECAUSE)
    assert "filling" not in stands.filter
    of_it = [one for one in planted.actions() if one["redrive_id"] == redrive_id]
    assert {one["by"] for one in of_it} == {"petra"} and len(of_it) == 2
    # What follows is the new request's: its counterparty gets a key that it has not seen.
    page = petra.http.get(f"/redrives/{redrive_id}")
    key = idempotency_key(planted.settings.kafka.group, new, 0)
    assert new in text_of(page) and key in text_of(page) and "filling" not in page.text
    assert f"replaced by {new}" in text_of(petra.http.get(f"/request?id={OLD}"))
    # A second click sends nothing.
    again = petra.send("/act/replace", **form)
    assert again.status_code == 409 and "1 then, 0 now" in again.text
    assert len(sent(planted)) == 1


def test_the_new_request_runs_and_the_old_one_does_not(
    make_box: MakeBox, opened: Open, tmp_path: Path, people: ExitStack
) -> None:
    box = make_box("work")
    stage = box.stage
    stage.start()
    wrong = {"answer": 1, "do": "reject", "note": HOSTILE}
    failed = stage.client.send(wrong, topic=stage.topics["work"], key=HOSTILE).request_id
    box.closed([failed])
    settings = with_people(load(stage.config()), tmp_path)
    (petra,) = people.enter_context(logged_in(opened(settings), "petra"))
    page = sends(petra, "edit", failed)
    assert json.loads(shown(page)) == wrong
    assert text_of(page) and "\\u202e" in shown(page) and "\x1b" not in shown(page)
    right = json.dumps(json.loads(shown(page)) | {"do": "answer"}, indent=2)
    page = sends(petra, "compare", failed, value=right)
    assert text_of(page)
    form = {"preview": previewed(page.text), "because": HOSTILE, "last": failed[-4:]}
    redrive_id = redrive_of(petra.send("/act/replace", **form))
    where = f"/redrives/{redrive_id}"
    eventually(lambda: "New request" in text_of(petra.http.get(where)), what="the new request")
    new = replacement_id(redrive_id, failed)
    assert new in text_of(petra.http.get(where))
    assert stage.final(new).state is State.SUCCEEDED
    assert stage.client.status(failed).state is State.FAILED
    assert new in text_of(petra.http.get(f"/request?id={failed}"))


def test_a_charge_twice_is_warned_of_and_asks_for_a_word(planted: Planted, petra: Browser) -> None:
    before = previewed(compared(petra).text)
    ask_anew(planted, OLD)
    form = {"because": BECAUSE, "last": OLD[-4:]}
    answer = petra.send("/act/replace", preview=before, **form)
    assert answer.status_code == 409 and "asked-anew" in answer.text
    assert "may charge twice" in answer.text and '"number": 7' in text_of(answer)
    form["preview"] = previewed(answer.text)
    assert petra.send("/act/replace", **form).status_code == 409
    assert planted.redrives() == [] and sent(planted) == []
    ended(planted, redrive_of(petra.send("/act/replace", **form, all_the_same="yes")))
    assert len(sent(planted)) == 1


def test_each_look_is_recorded_and_other_roles_see_and_do_nothing(
    planted: Planted, opened: Open, people: ExitStack
) -> None:
    console = opened(planted.settings)
    vera, olga, paul, petra = people.enter_context(
        logged_in(console, "vera", "olga", "paul", "petra")
    )
    seal = previewed(compared(petra).text)
    assert kinds(planted) == [ActionKind.LOOK] * 2
    for other in (vera, olga, paul):
        assert "Edit its value" not in other.http.get(f"/request?id={OLD}&letters=yes").text
        answers = [
            sends(other, "edit", OLD),
            sends(other, "compare", OLD, value='{"number": 7}'),
            other.send("/act/replace", preview=seal, because="x", last=OLD[-4:]),
        ]
        assert [one.status_code for one in answers] == [403] * 3
        assert not any("filling" in one.text for one in answers)
    assert kinds(planted) == [ActionKind.LOOK] * 2 and planted.redrives() == []
    # A preview of another action, or another console's.
    of_redrive = previewed(petra.http.get(f"/choose/redrive?id={OLD}").text)
    form = {"because": "x", "last": OLD[-4:]}
    assert petra.send("/act/replace", preview=of_redrive, **form).status_code == 400
    assert petra.send("/act/redrive", preview=seal, **form).status_code == 400
    with console_of(planted.settings) as other_console, logged_in(other_console, "petra") as (one,):
        assert one.send("/act/replace", preview=seal, **form).status_code == 400
    # Another site's form.
    headers = {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}
    for act in ("edit", "compare", "replace"):
        fields = {"token": petra.token("/audit"), "request_id": OLD, "value": "{}", "preview": seal}
        answer = petra.http.post(f"/act/{act}", data=fields | form, headers=headers)
        assert answer.status_code == 403
    assert planted.redrives() == []


def test_what_cannot_be_sent_is_said(planted: Planted, petra: Browser) -> None:
    same = shown(sends(petra, "edit", OLD))
    unchanged = sends(petra, "compare", OLD, value=same)
    assert "You have changed nothing" in unchanged.text
    assert 'name="preview"' not in unchanged.text
    slip = sends(petra, "compare", OLD, value='{"number": </textarea><script>alert(1)</script>')
    assert "line 1 column 12" in slip.text and 'name="preview"' not in slip.text
    assert "<script" not in slip.text and shown(slip).startswith('{"number": </textarea>')
    assert "does not keep" in sends(petra, "compare", OLD, value="pay \u202e7").text
    assert sends(petra, "compare", "unknown", value="{}").text.count("no dead letter") == 1
    assert petra.send("/act/compare", request_id=OLD).status_code == 400
    assert sends(petra, "edit", "unknown").status_code == 404
    for hostile in ("", "a\nb", "x" * 300):
        assert sends(petra, "edit", hostile).status_code == 400, hostile
    seen = previewed(petra.http.get(f"/choose/discard?id={OLD}").text)
    assert petra.send("/act/discard", preview=seen, because="x").status_code == 303
    gone = sends(petra, "compare", OLD, value='{"number": 7}')
    assert "Nothing can be sent: it was discarded" in gone.text
    assert planted.redrives() == []


@pytest.mark.parametrize(
    ("value", "said"),
    [(b"\xff\x00<script>", "no text"), (None, "null"), ("\u202e".encode(), "does not keep")],
)
def test_a_value_that_is_no_text_is_not_edited(
    make_box: MakeBox,
    opened: Open,
    tmp_path: Path,
    people: ExitStack,
    value: bytes | None,
    said: str,
) -> None:
    box = make_box("failing")
    box.stage.start()
    failed = box.stage.produce(value, key=b"k", handler="failing").coordinates_id
    box.closed([failed])
    settings = with_people(load(box.stage.config()), tmp_path)
    (petra,) = people.enter_context(logged_in(opened(settings), "petra"))
    answer = sends(petra, "edit", failed)
    assert answer.status_code == 409 and said in text_of(answer)
    assert (
        "onceward-dlq redrive ID --value-file FILE" in answer.text
        and "<textarea" not in answer.text
    )
    answer = sends(petra, "compare", failed, value="text")
    assert answer.status_code == 409 and 'name="preview"' not in answer.text
