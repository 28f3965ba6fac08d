"""What a person on call does in Chromium, click by click, and what axe-core finds on each page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver.common.by import By

from consumer.journal.pauses import Pauses
from feedback.settings.settings import load
from tests.consumer.console.conftest import Open
from tests.consumer.console.people import PASSWORD, with_people
from tests.consumer.console.test_pages import HOSTILE, judged, with_audit
from tests.consumer.features.dead_letters.conftest import MakeBox
from tests.eventually import eventually
from tests.kit.axe import violations
from tests.kit.chromium import chromium

pytestmark = pytest.mark.timeout(400)

LETTERS = 4
MOST_CLICKS = 5
# For people to look at.
SHOTS = Path("build") / "console"


class OnCall:
    """A person in front of a browser.

    Attributes:
        clicks: how often the person has clicked.
    """

    def __init__(self, browser: webdriver.Chrome, address: str) -> None:
        self.browser = browser
        self.clicks = 0
        self._address = address

    def opens(self, path: str = "/") -> None:
        """Go to a page by its address."""
        self.browser.get(self._address + path)

    def clicks_on(self, words: str) -> None:
        """Click on the link or the button with these words."""
        text = f"contains(normalize-space(.), {_quoted(words)})"
        wanted = f"//main//*[self::a or self::button][{text}]"
        eventually(lambda: self._has_clicked(By.XPATH, wanted), what=f"a click on {words}")
        self.clicks += 1

    def chooses(self, value: str) -> None:
        """Choose one of the radio buttons."""
        wanted = f"input[value={value}]"
        eventually(lambda: self._has_clicked(By.CSS_SELECTOR, wanted), what=f"a choice of {value}")
        self.clicks += 1

    def types(self, name: str, text: str) -> None:
        """Fill a field."""
        eventually(lambda: self.browser.find_elements(By.NAME, name), what=f"a field {name}")
        self.browser.find_element(By.NAME, name).send_keys(text)

    @property
    def sees(self) -> str:
        """The page's text, in one step: it may be kept up to date meanwhile."""
        script = "return document.querySelector('main')?.innerText"
        return str(self.browser.execute_script(script))

    def reads(self, *words: str) -> None:
        """Return when the page says all of this: a click may end before its page has come."""
        eventually(lambda: all(one in self.sees for one in words), what=f"{words} on the page")

    def _has_clicked(self, by: str, wanted: str) -> bool:
        try:
            self.browser.find_element(by, wanted).click()
        except (NoSuchElementException, StaleElementReferenceException):
            # The page is still to come, or was brought up to date in between.
            return False
        return True


def _quoted(words: str) -> str:
    assert '"' not in words
    return f'"{words}"'


@contextmanager
def on_call(address: str, name: str = "olga") -> Iterator[OnCall]:
    """Yield an operator who has logged in."""
    with chromium() as browser:
        one = OnCall(browser, address)
        one.opens()
        one.types("name", name)
        one.types("password", PASSWORD)
        one.clicks_on("Log in")
        # It leads to the first page, and may do so after the next address was opened.
        eventually(lambda: "Log in" not in one.sees, what="a person who has logged in")
        one.clicks = 0
        yield one


class Trouble(NamedTuple):
    """A console over failures of one cause and a doubt, with hostile texts among them."""

    address: str
    failed: list[str]
    doubt: str


@pytest.fixture
def trouble(make_box: MakeBox, opened: Open, tmp_path: Path) -> Trouble:
    """Return the console."""
    box = make_box("work", "failing")
    stage = box.stage
    worker = stage.start()
    failed = [
        stage.client.send({"n": n}, topic=stage.topics["failing"], key=f"card-{n}").request_id
        for n in range(LETTERS)
    ]
    doubt = stage.client.send({"do": "doubt"}, topic=stage.topics["work"], key=HOSTILE).request_id
    box.closed(failed)
    stage.final(doubt)
    judged(tmp_path / "audit", "2026-11-25", "bad", ran_twice=2)
    settings = with_audit(load(stage.config()), tmp_path / "audit")
    with closing(Pauses.from_settings(settings)) as pauses:
        pauses.pause(stage.topics["work"], reason=HOSTILE, by="ann@host")
    assert worker.stop() == 0
    console = opened(with_people(settings, tmp_path))
    return Trouble(str(console.base_url).rstrip("/"), failed, doubt)


def pages_of(trouble: Trouble) -> tuple[str, ...]:
    """Return the addresses of all pages."""
    letter = trouble.failed[0]
    return (
        *(
            "",
            "workers",
            "requests",
            f"requests?id={letter[:8]}",
            f"request?id={letter}&letters=yes",
        ),
        *(f"request?id={trouble.doubt}", "doubts", "letters", "letters?reason=HANDLER_ERROR"),
        *("letters?since=1h", "letters?since=soon", "letters?until=1h"),
        *(f"choose/{act}?reason=HANDLER_ERROR" for act in ("redrive", "discard")),
        *("redrives", "topics", "actions", "audit", "nowhere"),
    )


def test_a_redrive_of_one_cause_and_the_end_of_a_doubt_take_five_clicks_each(
    trouble: Trouble,
) -> None:
    with on_call(trouble.address) as olga:
        olga.opens()
        olga.clicks_on(f"{LETTERS} dead letters need")
        olga.clicks_on("HANDLER_ERROR")
        olga.clicks_on("Send these back")
        olga.reads("would be sent back", *trouble.failed)
        olga.types("because", "the bank is back")
        olga.clicks_on("Send")
        assert olga.clicks <= MOST_CLICKS
        eventually(lambda: f"{LETTERS} of {LETTERS} chosen" in olga.sees)

        olga.clicks = 0
        olga.opens()
        olga.clicks_on("1 doubt waits")
        olga.clicks_on("End the doubt")
        olga.reads(trouble.doubt, "Idempotency key")
        olga.chooses("yes")
        olga.types("because", "the bank has it")
        olga.types("last", trouble.doubt[-4:])
        olga.clicks_on("End the doubt")
        assert olga.clicks <= MOST_CLICKS
        olga.reads("SUCCEEDED")


def test_a_value_is_edited_in_a_browser_and_nothing_else_of_it_changes(trouble: Trouble) -> None:
    letter = trouble.failed[0]
    with on_call(trouble.address, "petra") as petra:
        petra.opens(f"/request?id={letter}")
        petra.clicks_on("Edit its value")
        petra.reads("See what would be sent")
        found = {"edit": violations(petra.browser)}
        value = petra.browser.find_element(By.NAME, "value")
        assert value.get_attribute("value") == '{\n  "n": 0\n}'
        value.clear()
        value.send_keys('{\n  "n": 7,\n  "to": "Zoe  B"\n}')
        petra.clicks_on("See what would be sent")
        petra.reads("What changes", '-  "n": 0', '+  "n": 7,')
        # Both blanks: who copies the command sends what the page shows.
        petra.reads("""--value '{"n":7,"to":"Zoe  B"}'""")
        found["compare"] = violations(petra.browser)
        petra.types("because", "the amount was wrong")
        petra.types("last", letter[-4:])
        petra.clicks_on("Send the new request")
        eventually(lambda: "New request for" in petra.sees)
        said = petra.browser.get_log("browser")  # type: ignore[no-untyped-call]
    assert {page: ones for page, ones in found.items() if ones} == {}
    assert [one["message"] for one in said if one["source"] == "security"] == []


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.long)])
def test_axe_finds_nothing_and_no_page_does_what_its_policy_forbids(
    trouble: Trouble, scheme: str
) -> None:
    with on_call(trouble.address) as olga:
        olga.browser.get("data:text/html,<button></button>")
        assert "button-name" in {one.rule for one in violations(olga.browser)}
        use_scheme(olga.browser, scheme)
        found = {}
        for page in pages_of(trouble):
            olga.opens(f"/{page}")
            found[page] = violations(olga.browser)
        said = olga.browser.get_log("browser")  # type: ignore[no-untyped-call]
    assert {page: ones for page, ones in found.items() if ones} == {}
    assert [one["message"] for one in said if one["source"] == "security"] == []


def use_scheme(browser: webdriver.Chrome, scheme: str) -> None:
    """Let pages be light or dark."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


@pytest.mark.long
@pytest.mark.parametrize("width", [360, 1600])
def test_nothing_leaves_its_box_on_a_phone_and_on_a_wide_screen(
    trouble: Trouble, width: int
) -> None:
    with on_call(trouble.address) as olga:
        olga.browser.set_window_size(width, 900)
        # A window of Chromium's is never as narrow as a phone.
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        olga.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        SHOTS.mkdir(parents=True, exist_ok=True)
        for page in pages_of(trouble):
            olga.opens(f"/{page}")
            name = page.partition("?")[0].replace("/", "-") or "now"
            olga.browser.save_screenshot(str(SHOTS / f"{name[:16]}-{width}.png"))
            wide = olga.browser.execute_script("return document.documentElement.scrollWidth")
            assert wide <= width, page
