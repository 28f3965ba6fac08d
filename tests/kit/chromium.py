"""A headless Chromium, driven by selenium."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from selenium import webdriver

from onceward.servers.packages import program


@contextmanager
def chromium() -> Iterator[webdriver.Chrome]:
    """Yield one, for the length of the block."""
    options = webdriver.ChromeOptions()
    options.binary_location = program("chromium")
    for argument in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "window-size=700,600"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    one = webdriver.Chrome(options, webdriver.ChromeService(program("chromedriver")))
    try:
        yield one
    finally:
        one.quit()
