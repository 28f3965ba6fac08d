"""`python -m tests.consumer.console.shots`: the pictures of the documentation, in docs/static.

Real pages of a real console, over requests, dead letters and doubts that are planted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.by import By

from consumer.journal.schema import migrate
from feedback.settings.settings import load
from tests.bench.console.planting import Planted, plant
from tests.consumer.console.conftest import console_of
from tests.consumer.console.people import with_people
from tests.consumer.console.test_in_browser import OnCall, on_call, use_scheme
from tests.stack import Stack
from tests.stack.postgres import fresh_database

FOLDER = Path(__file__).parents[3] / "docs" / "static" / "console"
TOPICS = ("payments", "refunds", "seats", "mails", "coupons")
WIDTH, HEIGHT = 1000, 640


def main() -> None:
    """Take all of them."""
    FOLDER.mkdir(exist_ok=True)
    with _console() as (address, planted), on_call(address) as olga:
        _size(olga.browser)
        doubt = planted.request_id(planted.rows)
        for name, path in {
            "now": "/",
            "doubt": f"/requests/{doubt}#resolve",
            "letters": "/letters?reason=BANK",
            "redrive-preview": "/choose/redrive?reason=BANK",
        }.items():
            _take(olga, name, path)
        use_scheme(olga.browser, "dark")
        _take(olga, "now-dark", "/")
        with on_call(address, "petra") as petra:
            _size(petra.browser)
            _edit(petra, planted.failed(0))


def _edit(person: OnCall, letter: str) -> None:
    """Take the picture of a value that is edited."""
    person.opens(f"/requests/{letter}")
    person.clicks_on("Edit its value")
    person.reads("See what would be sent")
    value = person.browser.find_element(By.NAME, "value")
    text = str(value.get_attribute("value"))
    value.clear()
    value.send_keys(text.replace("5", "7"))
    person.clicks_on("See what would be sent")
    person.reads("What changes")
    person.browser.save_screenshot(str(FOLDER / "value-edit.png"))


def _take(person: OnCall, name: str, path: str) -> None:
    person.opens(path)
    while "being read" in person.sees:
        person.opens(path)
    person.browser.save_screenshot(str(FOLDER / f"{name}.png"))


def _size(browser: webdriver.Chrome) -> None:
    size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


@contextmanager
def _console() -> Iterator[tuple[str, Planted]]:
    with ExitStack() as opened:
        servers = opened.enter_context(Stack.start(environ={}))
        url = opened.enter_context(fresh_database(servers.postgres, "shots"))
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        migrate(url)
        settings = load(
            None,
            kafka={"bootstrap_servers": servers.kafka, "group": "shop"},
            redis={"url": servers.redis},
            journal={"url": url},
        )
        planted = Planted("shop", rows=2000, letters=40, topics=TOPICS)
        plant(url, servers.kafka, planted)
        console = opened.enter_context(console_of(with_people(settings, folder)))
        yield str(console.base_url).rstrip("/"), planted


if __name__ == "__main__":
    main()
