"""A payload is hidden until a payload reader asks, and each look is recorded; topics go on."""

import re
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from consumer.journal.actions import ActionKind
from consumer.journal.lookup import Lookup
from consumer.journal.pauses import Pauses
from consumer.journal.searching import JournalSearch
from feedback.settings.settings import load
from tests.consumer.console.conftest import Open
from tests.consumer.console.people import Browser, logged_in, with_people
from tests.consumer.console.test_pages import HOSTILE, text_of
from tests.consumer.features.dead_letters.conftest import MakeBox

CARD = "4111111111111111"
BYTES = b"\xff\x00<script>alert(1)</script>\x1b[2J"


def test_a_payload_is_shown_to_its_readers_alone_and_each_look_is_recorded(
    make_box: MakeBox,
    opened: Open,
    tmp_path: Path,
    people: ExitStack,
    caplog: pytest.LogCaptureFixture,
) -> None:
    box = make_box("failing")
    stage = box.stage
    stage.start()
    headers = (("note", HOSTILE.encode()), ("raw", BYTES), ("<b>\u202e", b"1"))
    sent = [
        stage.client.send(value, topic=stage.topics["failing"], headers=headers).request_id
        for value in ({"card": CARD, "name": HOSTILE}, BYTES)
    ]
    box.closed(sent)
    settings = with_people(load(stage.config()), tmp_path)
    vera, olga, paul = people.enter_context(logged_in(opened(settings), "vera", "olga", "paul"))
    page = f"/request?id={sent[0]}"
    for one in (vera, olga):
        assert 'action="/act/look"' not in one.http.get(page).text
        assert one.send("/act/look", page=page, request_id=sent[0]).status_code == 403
    assert CARD not in paul.http.get(f"{page}&letters=yes").text
    with Lookup.from_settings(settings) as lookup:
        assert lookup.actions(sent) == {}

    shown = text_of(paul.send("/act/look", page=page, request_id=sent[0]))
    assert f'  "card": "{CARD}"' in shown and "JSON" in shown
    assert "note" in shown and "alert(1)" in shown and "0xff00" in shown
    raw = text_of(paul.send("/act/look", page=page, request_id=sent[1]))
    assert "3c 73 63 72 69 70 74" in raw  # in hex
    assert paul.send("/act/look", page=page, request_id="unknown").status_code == 404
    with Lookup.from_settings(settings) as lookup:
        looks = lookup.actions([*sent, "unknown"])
    assert {(one.action, one.by) for found in looks.values() for one in found} == {
        (ActionKind.LOOK, "paul")
    }
    assert {one: len(found) for one, found in looks.items()} == dict.fromkeys(sent, 1)
    assert CARD not in paul.http.get(page).text
    assert "paul" in text_of(vera.http.get("/actions"))
    assert CARD not in caplog.text

    # A look decides nothing: the letter may be discarded, and that undone.
    discard = olga.http.get(f"/choose/discard?id={sent[0]}").text
    assert "1 dead letter" in discard


def test_a_topic_goes_on_by_a_person_who_is_named(
    make_box: MakeBox, opened: Open, tmp_path: Path, people: ExitStack
) -> None:
    stage = make_box("work").stage
    settings = with_people(load(stage.config()), tmp_path)
    topic = stage.topics["work"]
    with closing(Pauses.from_settings(settings)) as pauses:
        assert pauses.pause(topic, reason=HOSTILE, by="otto")
        assert not pauses.pause(topic, reason="again", by="olga")
    vera, olga = people.enter_context(logged_in(opened(settings), "vera", "olga"))
    assert "Let it go on" not in text_of(vera.http.get("/topics"))
    assert "Let it go on" in text_of(olga.http.get("/topics"))
    form = {"topic": topic, "since": since_of(olga)}
    answers = [olga.send("/act/resume_topic", **form).status_code for _ in range(2)]
    assert answers == [303, 409]
    with closing(Pauses.from_settings(settings)) as pauses:
        assert pauses.paused() == []
    with closing(JournalSearch.from_settings(settings)) as search:
        found = search.actions(most=9).actions
    assert [(one.action, one.by, one.reason) for one in found] == [
        (ActionKind.RESUME_TOPIC, "olga", topic),
        (ActionKind.PAUSE_TOPIC, "otto", f"{topic}: {HOSTILE}"),
    ]
    # A page that was open meanwhile ends no pause that it does not show.
    with closing(Pauses.from_settings(settings)) as pauses:
        assert pauses.pause(topic, reason="the bank charges twice", by="otto")
        assert olga.send("/act/resume_topic", **form).status_code == 409
        assert [one.reason for one in pauses.paused()] == ["the bank charges twice"]
    form["since"] = since_of(olga)
    assert olga.send("/act/resume_topic", **form).status_code == 303


def since_of(browser: Browser) -> str:
    """Return since when the only pause on the page of topics is."""
    (found,) = re.findall(r'name="since" value="([0-9]+)"', browser.http.get("/topics").text)
    return str(found)
