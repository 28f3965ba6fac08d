"""A letter of another system is open although this group has read, and ended, the same record."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import NullPool, create_engine, insert, select
from sqlalchemy.engine import RowMapping

from consumer.dlq.dialects import letter_headers
from consumer.journal.tables import request
from feedback.records.envelope import REQUEST_ID, payload_sha256
from tests.consumer.console.conftest import Open, PlantLetters
from tests.consumer.console.others import letter_of, showing, topic_of
from tests.consumer.console.people import Browser, logged_in
from tests.consumer.console.test_letters_of_others import LINK
from tests.consumer.console.test_pages import text_of
from tests.consumer.console.test_redrives import previewed
from tests.consumer.console.test_stretches import seen
from tests.consumer.dlq.conftest import Dlq
from tests.consumer.dlq.conftest import dlq as dlq
from tests.consumer.dlq.letters import write
from tests.consumer.dlq.redrive.planted import Planted
from tests.consumer.dlq.redrive.planting import row_of
from tests.eventually import eventually

pytestmark = [pytest.mark.timeout(400), pytest.mark.usefixtures("no_given_servers")]

# Its row is FAILED, and it has a letter of the group.
OURS = "request-00000000"


class Beside:
    """Two letters of Spring: this group has succeeded with one record, and failed with the other.

    Attributes:
        theirs: the id of the first.
    """

    def __init__(self, planted: Planted) -> None:
        self.planted = planted
        self.dlq = topic_of(planted, "spring", 1)
        both = letter_of("spring", planted.topic, 1)
        named = both._replace(headers=(*both.headers, (REQUEST_ID, OURS.encode())))
        write(planted.settings.kafka.bootstrap_servers, self.dlq, [named])
        first = letter_headers.letter_of(letter_of("spring", planted.topic, 0))
        self.theirs = first.request_id
        row = row_of(OURS, planted.topic)
        done = row._replace(
            request_id=self.theirs,
            state="SUCCEEDED",
            message_key=first.key,
            payload_sha256=payload_sha256(first.key, first.value),
        )
        group = planted.settings.kafka.group
        engine = create_engine(planted.settings.journal.url, poolclass=NullPool)
        with engine.begin() as connection:
            connection.execute(insert(request), [{"group": group, **done._asdict()}])

    def rows(self) -> list[RowMapping]:
        """Return all rows."""
        engine = create_engine(self.planted.settings.journal.url, poolclass=NullPool)
        with engine.connect() as connection:
            return list(connection.execute(select(request)).mappings())


@pytest.fixture
def beside(plant_letters: PlantLetters) -> Beside:
    """Return both letters."""
    return Beside(plant_letters(1))


@pytest.fixture
def olga(beside: Beside, opened: Open, monkeypatch: pytest.MonkeyPatch) -> Iterator[Browser]:
    """Yield the browser of an operator, at a console that shows the topic of Spring."""
    # Else it reads the letters again after a time that grows with how slow the machine is.
    monkeypatch.setattr("consumer.console.letter_board.RESTS", 0)
    console = opened(showing(beside.planted.settings, beside.dlq))
    with logged_in(console, "olga") as (one,):
        yield one


def test_it_is_open_on_the_console_until_a_person_discards_it(
    beside: Beside, olga: Browser
) -> None:
    page = seen(olga, dlq=beside.dlq)
    assert f"2 dead letters in {beside.dlq} that may need" in page
    for state in ("SUCCEEDED", "FAILED"):
        assert f'unknown <span class="message">this group: {state}</span>' in page
    now = text_of(olga.http.get("/"))
    assert f"2 dead letters in {beside.dlq} need a decision" in now
    assert "1 dead letter needs a decision" in now and "All is well" not in now
    assert f'href="/letters?dlq={beside.dlq}"' in now

    where = f"/request?id={beside.theirs}&dlq={beside.dlq}"
    page = text_of(olga.http.get(where))
    assert "unknown (this group: SUCCEEDED)" in page and "Undo the discard" not in page
    before = beside.rows()
    path = f"/choose/redrive?dlq={beside.dlq}&unknown=yes&id={beside.theirs}"
    left = text_of(olga.http.get(path))
    assert "1 left: this group ran it: SUCCEEDED or SKIPPED; send it in the other" in left
    (link,) = (one for one in LINK.findall(page) if one.startswith("/choose/discard?"))
    seal = previewed(olga.http.get(link).text)
    done = olga.send("/act/discard", preview=seal, because="refunded by hand")
    assert done.headers["location"] == where
    page = text_of(olga.http.get(where))
    assert "discarded (this group: SUCCEEDED)" in page and "Undo the discard" in page
    eventually(lambda: "1 discarded" in seen(olga, dlq=beside.dlq))
    assert f"1 dead letter in {beside.dlq} needs a decision" in text_of(olga.http.get("/"))

    # Of this group nothing is to be undone, and nothing was done.
    undo = olga.form("undo_discard", where) | {"because": "not refunded"}
    assert undo.items() >= {"request_id": beside.theirs, "dlq": beside.dlq}.items()
    ours = {name: one for name, one in undo.items() if name != "theirs"}
    assert olga.send("/act/undo_discard", **ours).status_code == 409
    assert olga.send("/act/undo_discard", **undo).headers["location"] == where
    assert olga.send("/act/undo_discard", **undo).status_code == 409
    page = text_of(olga.http.get(where))
    assert "unknown (this group: SUCCEEDED)" in page and "Discard it" in page
    eventually(lambda: "2 unknown" in seen(olga, dlq=beside.dlq))
    assert beside.rows() == before
    done_by = [(one["action"], one["generation"]) for one in beside.planted.actions()]
    assert done_by == [("discard", None), ("undo", None)]


def test_where_this_group_has_failed_too_that_is_decided_first(
    beside: Beside, olga: Browser
) -> None:
    theirs, ours = f"/request?id={OURS}&dlq={beside.dlq}", f"/request?id={OURS}"
    page = text_of(olga.http.get(theirs))
    assert "unknown (this group: FAILED)" in page
    left = text_of(olga.http.get(f"/choose/discard?id={OURS}&dlq={beside.dlq}"))
    assert "1 left: this group has failed too, which is open: discard that first" in left
    assert 'name="preview"' not in left
    seal = previewed(olga.http.get(f"/choose/discard?id={OURS}").text)
    assert olga.send("/act/discard", preview=seal, because="a test").headers["location"] == ours
    # That closes no failure in another system.
    assert "unknown (this group: FAILED)" in text_of(olga.http.get(theirs))
    seal = previewed(olga.http.get(f"/choose/discard?id={OURS}&dlq={beside.dlq}").text)
    assert olga.send("/act/discard", preview=seal, because="theirs").headers["location"] == theirs
    assert "discarded (this group: FAILED)" in text_of(olga.http.get(theirs))
    undo = olga.form("undo_discard", ours) | {"because": "not a test"}
    assert olga.send("/act/undo_discard", **undo).headers["location"] == ours
    # Ours is open: a redrive of either letter would send it.
    assert "unknown (this group: FAILED)" in text_of(olga.http.get(theirs))
    eventually(lambda: "1 open" in seen(olga))
    assert [one["generation"] for one in beside.planted.actions()] == [1, None, 1]


def test_it_is_open_for_the_commands_until_a_person_discards_it(beside: Beside, dlq: Dlq) -> None:
    config, name, topic = beside.planted.config, beside.theirs, ("--dlq", beside.dlq)

    def said(*words: str, code: int = 0) -> dict[str, Any]:
        done = dlq(config, *words, "--json")
        assert done.code == code, done.stderr
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    def listed(*words: str) -> dict[str, Any]:
        *letters, _ = dlq(config, "list", *topic, "--json", *words).stdout.splitlines()
        found = {one["request_id"]: one for one in map(json.loads, letters)}
        return {name: (one["state"], one.get("this_group")) for name, one in found.items()}

    both = {name: ("unknown", "SUCCEEDED"), OURS: ("unknown", "FAILED")}
    assert listed() == both and said("list", *topic)["summary"]["states"] == {"unknown": 2}
    shown = dlq(config, "show", name, *topic).stdout
    for page in (dlq(config, "list", *topic).stdout, shown):
        assert "unknown (this group: SUCCEEDED)" in " ".join(page.split())
    assert f"onceward-dlq discard {' '.join(topic)} --because ''" in shown
    told = said("show", name, *topic)
    assert (told["state"], told["this_group"], told["row"]["state"]) == (
        "unknown",
        "SUCCEEDED",
        "SUCCEEDED",
    )
    # A redrive takes what it has taken before.
    trial = ("redrive", *topic, "--unknown", "--id", name, "--dry-run")
    assert said(*trial, code=1)["refused"] == {"done": 1}
    words = "this group ran it: SUCCEEDED or SKIPPED; send it in the other system, or discard"
    assert words in dlq(config, *trial).stdout

    discard = ("discard", "--id", name, "--because", "refunded", "--yes")
    before = beside.rows()
    assert said(*discard, code=1)["refused"] == {"done": 1}
    assert said(*discard, *topic)["discarded"] == 1
    assert listed() == {OURS: ("unknown", "FAILED")}
    assert listed("--all")[name] == ("discarded", "SUCCEEDED")
    assert f"discard --undo {' '.join(topic)}" in dlq(config, "show", name, *topic).stdout
    undo = ("discard", name, "--undo", "--because", "not refunded")
    assert said(*undo, code=1)["requests"] == {name: "not_discarded"}
    assert said(*undo, *topic)["requests"] == {name: "undone"}
    assert listed() == both and beside.rows() == before
    usage = dlq(config, "discard", "--undo", *topic, "--because", "x")
    assert usage.code == 2 and "say which letters" in usage.stderr

    # Ours beside it is as it was.
    assert said(*discard[:2], OURS, *discard[3:], *topic, code=1)["refused"] == {"ours_open": 1}
    own = json.loads(dlq(config, "list", "--json").stdout.splitlines()[0])
    assert (own["request_id"], own["state"], "this_group" in own) == (OURS, "open", False)
