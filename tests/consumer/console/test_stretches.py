"""The dead letters of a stretch of time are sent back as they were seen, or drawn over the bars."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.pointer_input import PointerInput
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from sqlalchemy import NullPool, create_engine, select

from consumer.dlq.dates import iso, moment_ms
from consumer.journal.tables import request
from feedback.clock import epoch_ms
from tests.consumer.console.conftest import Open, PlantLetters
from tests.consumer.console.people import Browser, logged_in
from tests.consumer.console.test_in_browser import OnCall, on_call
from tests.consumer.console.test_pages import HOSTILE, text_of
from tests.consumer.dlq.redrive.planted import Planted
from tests.eventually import eventually

pytestmark = pytest.mark.timeout(400)

LETTERS = 6
# Beyond the step of a bar, so that each letter has one of its own.
APART_MS = 300_000
# From the middle of a bar to beside it.
ABOVE_PX = 70
# Not those of bars.
HREF = re.compile(r'href="([^"]+)">')
BAR = re.compile(r'<a href="([^"]+)" tabindex="-1">\s*<title>[^<]*Z: ([0-9]+)</title>')


@pytest.fixture
def spread(plant_letters: PlantLetters) -> Planted:
    """Return letters of half an hour; the first one's failure is the latest."""
    return plant_letters(LETTERS, apart_ms=APART_MS)


@pytest.fixture
def address(spread: Planted, opened: Open) -> str:
    """Return where their console is."""
    return str(opened(spread.settings).base_url).rstrip("/")


@pytest.fixture
def olga(spread: Planted, opened: Open, people: ExitStack) -> Browser:
    """Return the browser of an operator."""
    (browser,) = people.enter_context(logged_in(opened(spread.settings), "olga"))
    return browser


def seen(olga: Browser, where: str = "/letters", **query: str) -> str:
    """Return a page once the letters have been read."""
    page = ""

    def is_read() -> bool:
        nonlocal page
        answer = olga.http.get(where, params=query or None)
        assert answer.status_code == 200
        page = text_of(answer)
        return "being read" not in page

    eventually(is_read, what=where, timeout_s=60)
    return page


def name(number: int) -> str:
    """Return the id of a letter's request."""
    return f"request-{number:08d}"


def named(page: str) -> set[str]:
    """Return the ids of the letters that a page lists."""
    return set(re.findall(r"request-[0-9]{8}", page))


def failures(spread: Planted) -> list[int]:
    """Return when each has failed, in their order."""
    engine = create_engine(spread.settings.journal.url, poolclass=NullPool)
    asked = select(request.c.finished_at).order_by(request.c.request_id)
    with engine.connect() as connection:
        return list(connection.execute(asked).scalars())


def test_a_stretch_is_sent_back_as_it_was_seen(spread: Planted, olga: Browser) -> None:
    times = failures(spread)
    ends = {"since": iso(times[3]), "until": iso(times[0])}
    page = seen(olga, **ends)
    chosen = {name(number) for number in (1, 2, 3)}
    assert "3 dead letters that may need" in page and named(page) == chosen
    assert "3 open" in page and all(f"{end} <b>{at}</b>" in page for end, at in ends.items())
    assert f"onceward-dlq list --since {ends['since']} --until {ends['until']}" in page

    links = HREF.findall(page)
    groups = [one for one in links if one.startswith("/letters?")]
    assert len(groups) > 3
    for one in groups:
        asked = dict(parse_qsl(urlsplit(one).query))
        assert {end: asked[end] for end in ends} == ends
    (by_reason,) = (one for one in groups if "reason=" in one)
    assert named(seen(olga, by_reason)) == chosen

    for kind, verb in (("redrive", "sent back"), ("discard", "discarded")):
        (link,) = (one for one in links if one.startswith(f"/choose/{kind}?"))
        assert dict(parse_qsl(urlsplit(link).query)) == ends
        preview = text_of(olga.http.get(link))
        assert f"3 dead letters</b> would be {verb}" in preview
        if kind == "redrive":
            assert named(preview) == chosen


def test_each_bar_leads_to_the_letters_that_it_counts(spread: Planted, olga: Browser) -> None:
    bars = BAR.findall(seen(olga))
    assert len(bars) == 1 + (LETTERS - 1) * APART_MS // 60_000
    assert sum(int(count) for _, count in bars) == LETTERS
    for link, count in bars:
        assert f"{int(count)} dead letter" in seen(olga, link), link
    # The first bar of a stretch that begins within it has no letter of before.
    since = iso(failures(spread)[4] + 1)
    cut = BAR.findall(seen(olga, since=since))
    assert sum(int(count) for _, count in cut) == 4
    moments = [parse_qs(urlsplit(one).query)["since"][0] for one, _ in cut]
    assert min(moments) >= since


def test_so_long_ago_is_a_moment_once_it_was_looked_at(spread: Planted, olga: Browser) -> None:
    before_ms = epoch_ms()
    page = seen(olga, since=" 22m ", until="")
    after_ms = epoch_ms()
    assert named(page) == {name(number) for number in (0, 1, 2)}
    (link,) = (one for one in HREF.findall(page) if one.startswith("/choose/redrive?"))
    ((end, since),) = parse_qsl(urlsplit(link).query)
    assert end == "since"
    at = moment_ms("since", since, now_ms=0)
    assert before_ms <= at + 22 * 60_000 <= after_ms
    assert f'name="since" value="{since}"' in page and "22m" not in page
    assert "3 dead letters</b> would be" in text_of(olga.http.get(link))


def test_the_fields_of_a_stretch_keep_the_other_conditions(olga: Browser) -> None:
    for asked, count in (
        ({"reason": "BANK_CLOSED", "message": "the bank is closed"}, 3),
        ({"reason": HOSTILE, "message": "a\r\nb"}, 0),
        ({"reason": "", "exception": ""}, 0),
    ):
        page = seen(olga, **asked)
        (kept,) = re.findall(r'name="within" value="([^"]*)"', page)
        page = seen(olga, within=kept, since="22m", until="")
        assert f"{count} dead letters" in page
        (again,) = re.findall(r'name="within" value="([^"]*)"', page)
        assert dict(parse_qsl(again, keep_blank_values=True)) == asked
    assert f"{LETTERS} dead letters" in seen(olga, since="", until="  ")
    assert 'name="within"' not in seen(olga, since="22m")


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ({"since": "soon"}, "write 15m, 2h or 7d"),
        ({"until": HOSTILE}, "write 15m, 2h or 7d"),
        ({"since": "2026-11-28"}, "write 15m, 2h or 7d"),
        ({"until": "9" * 5000 + "h"}, "write 15m, 2h or 7d"),
        ({"since": "0000-00-00T00:00Z", "until": "\x00"}, "write 15m, 2h or 7d"),
        ({"until": "9999-12-31T23:59:59-10:00"}, "write 15m, 2h or 7d"),
        ({"since": "1h", "until": "2h"}, "--since must be before --until"),
        ({"since": "2026-11-28T01:00:00Z", "until": "2026-11-28T02:00:00+01:00"}, "before --until"),
    ],
)
def test_a_bad_word_is_one_sentence(olga: Browser, ends: dict[str, str], said: str) -> None:
    page = seen(olga, reason="BANK_CLOSED", **ends)
    assert said in page and "BANK_CLOSED" in page
    assert not named(page) and "/choose/" not in page and "onceward-dlq" not in page


class Hand:
    """A hand on the bars of the page.

    Args:
        kind: of the pointer, by the names of WebDriver.
    """

    def __init__(self, browser: webdriver.Chrome, kind: str) -> None:
        self._browser = browser
        self._input = PointerInput(kind, "hand")  # type: ignore[no-untyped-call]

    def drags(self, *bars: WebElement, releases: bool = False) -> None:
        """Press on the first bar and move to the others.

        Args:
            releases: at the end. A finger has to: Chromium's driver forgets that it is there.
        """
        actions = self._actions().click_and_hold(bars[0])
        for one in bars[1:]:
            actions.move_to_element(one)
        self._perform(actions.release() if releases else actions)

    def releases(self) -> None:
        """Let go."""
        self._perform(self._actions().release())

    def slips_off(self, bar: WebElement) -> None:
        """Press on a bar and let go above it."""
        self._perform(self._actions().click_and_hold(bar).move_by_offset(0, -ABOVE_PX).release())

    def moves(self, bar: WebElement) -> None:
        """Move to a bar with nothing pressed."""
        self._perform(self._actions().move_to_element(bar))

    def _actions(self) -> ActionChains:
        return ActionChains(self._browser, devices=[self._input])

    def _perform(self, actions: ActionChains) -> None:
        actions.perform()
        # Else they would be performed once more with the next ones.
        self._input.clear_actions()


def bars_of(olga: OnCall) -> list[WebElement]:
    """Open the page; return its bars that count a letter, the oldest first."""
    olga.opens("/letters")
    while "being read" in olga.sees:
        olga.opens("/letters")
    links = olga.browser.find_elements(By.CSS_SELECTOR, ".bars a")
    olga.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", links[0])
    slots = [one.find_element(By.CSS_SELECTOR, ".slot") for one in links]
    titles = [one.find_element(By.TAG_NAME, "title") for one in links]
    counts = [str(one.get_attribute("textContent")) for one in titles]
    return [one for one, count in zip(slots, counts, strict=True) if not count.endswith(": 0")]


def marked(olga: OnCall) -> int:
    """Return how many bars are marked."""
    return len(olga.browser.find_elements(By.CSS_SELECTOR, ".bars .chosen"))


@pytest.fixture
def on_the_page(address: str) -> Iterator[OnCall]:
    """Yield an operator in front of a browser."""
    with on_call(address) as one:
        yield one


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        ("mouse", (1, 3)),
        ("touch", (3, 1)),
        pytest.param("mouse", (3, 1), marks=pytest.mark.long),
        pytest.param("touch", (1, 3), marks=pytest.mark.long),
    ],
)
def test_a_drag_over_bars_leads_to_their_letters_and_to_their_redrive(
    on_the_page: OnCall, kind: str, way: tuple[int, int]
) -> None:
    olga = on_the_page
    bars = bars_of(olga)
    assert len(bars) == LETTERS and marked(olga) == 0
    Hand(olga.browser, kind).drags(*(bars[place] for place in way), releases=True)
    eventually(lambda: "3 dead letters that may need" in olga.sees)
    chosen = {name(number) for number in (2, 3, 4)}
    assert named(olga.sees) == chosen
    olga.clicks_on("Send these back")
    eventually(lambda: "3 dead letters would be sent back" in olga.sees)
    assert named(olga.sees) == chosen
    said = olga.browser.get_log("browser")  # type: ignore[no-untyped-call]
    assert [one["message"] for one in said if one["level"] == "SEVERE"] == []


def test_escape_and_a_slip_end_a_drag_and_a_click_takes_one_bar(on_the_page: OnCall) -> None:
    olga = on_the_page
    bars = bars_of(olga)
    hand = Hand(olga.browser, "mouse")
    hand.drags(bars[1], bars[4], bars[3])
    assert marked(olga) == 1 + 2 * APART_MS // 60_000
    ActionChains(olga.browser).send_keys(Keys.ESCAPE).perform()
    assert marked(olga) == 0
    hand.releases()
    assert olga.browser.current_url.endswith("/letters")
    hand.slips_off(bars[1])
    hand.moves(bars[5])
    assert marked(olga) == 0
    hand.drags(bars[5], releases=True)
    eventually(lambda: "1 dead letter that may need" in olga.sees)
    assert named(olga.sees) == {name(0)}
    olga.clicks_on("all of them")
    eventually(lambda: f"{LETTERS} dead letters that may need" in olga.sees)
