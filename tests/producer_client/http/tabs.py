"""The payment form of one order, in a tab of its own."""

from __future__ import annotations

import json

from selenium import webdriver
from selenium.webdriver.common.by import By

from producer_client.http.ids import request_id_of
from tests.eventually import eventually
from tests.producer_client.http.site import Site


class Tab:
    """One tab of a browser."""

    def __init__(self, browser: webdriver.Chrome, site: Site, order: str) -> None:
        browser.switch_to.new_window("tab")
        self._browser, self._order = browser, order
        self._handle = browser.current_window_handle
        browser.get(f"http://127.0.0.1:{site.server_port}/?{order}")
        eventually(browser.find_element(By.ID, "pay").is_enabled, timeout_s=30)

    def pay(self) -> None:
        """Press twice, and keep the id of the request: its key goes when its end is known."""
        self._browser.switch_to.window(self._handle)
        self._browser.execute_script(
            "const f = document.querySelector('form'); f.requestSubmit(); f.requestSubmit();"
        )
        stored = f"return sessionStorage.getItem('onceward:{self._order}')"
        key = json.loads(self._browser.execute_script(stored))["key"]
        self.request_id = request_id_of("", key)

    def says(self, beginning: str) -> None:
        """Return when the page says this of the payment."""
        try:
            eventually(lambda: self.said.startswith(beginning), timeout_s=60)
        except TimeoutError:
            raise AssertionError(f"{self._order}: not {beginning!r} but {self.said!r}") from None

    @property
    def said(self) -> str:
        """The page's word on the payment."""
        self._browser.switch_to.window(self._handle)
        return self._browser.find_element(By.ID, "said").text

    @property
    def state(self) -> str:
        """The state of the payment, as the page has it; empty for none."""
        self._browser.switch_to.window(self._handle)
        return self._browser.find_element(By.ID, "said").get_dom_attribute("data-state") or ""

    def reload(self) -> None:
        """Load the page again."""
        self._browser.switch_to.window(self._handle)
        self._browser.refresh()

    def close(self) -> None:
        """Close the tab; the browser's first one stays."""
        self._browser.switch_to.window(self._handle)
        self._browser.close()
        self._browser.switch_to.window(self._browser.window_handles[0])
