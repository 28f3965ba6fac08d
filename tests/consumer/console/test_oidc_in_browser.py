"""A login at a certified provider, in Chromium: its own pages, and the way there and back.

To the browser the provider is another site: which cookies come along is its decision.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from consumer.console.people import ConsoleRole, person_line
from feedback.settings.settings import load
from onceward.servers.ports import free_port
from tests.consumer.console.conftest import Open
from tests.consumer.console.people import lines
from tests.consumer.console.test_in_browser import OnCall
from tests.eventually import eventually
from tests.kit.chromium import chromium
from tests.kit.openid import CLIENT_ID, CLIENT_SECRET, openid_folder, openid_provider

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]

VERA, OLGA, NEW = "vera@shop.example", "olga@shop.example", "new@shop.example"
ROLES = {VERA: [], OLGA: [ConsoleRole.OPERATOR], NEW: [ConsoleRole.OPERATOR]}
# As a form of the console would send it, with this browser's cookies.
_ACT = """
const [act, token, done] = arguments;
fetch(`/act/${act}`, {method: "POST", body: new URLSearchParams({token})}).then(
    answer => answer.text().then(text => done(`${answer.status} ${text}`)), done);
"""


@pytest.fixture
def folder() -> Path:
    """Return the folder of the provider."""
    return openid_folder()


class AtProvider:
    """A person before the provider's pages and the console's."""

    def __init__(self, browser: webdriver.Chrome, console: str) -> None:
        self.browser = browser
        self.console = OnCall(browser, console)

    def goes(self, where: str) -> None:
        """Ask for a page of the console, and go to the provider."""
        self.console.opens(where)
        self.console.clicks_on("Log in at localhost")
        eventually(self._is_there, what="the provider's page")

    def logs_in(self, name: str) -> None:
        """Type a name, and confirm that the console may know it."""
        self._find("input[name=login]").send_keys(name)
        self._find("input[name=password]").send_keys("any")
        self._find("input[value=login] ~ button").click()
        self._find("input[value=consent] ~ button").click()
        eventually(lambda: not self._is_there(), what="the console")

    def cancels(self) -> None:
        """Click on the link that ends the login at the provider."""
        self._find("a[href$=abort]").click()

    def has_come_to(self, where: str, name: str) -> None:
        """Return when the browser shows a page of the console to this person."""
        eventually(lambda: urlsplit(self.browser.current_url).path == where, what=f"{where}")
        eventually(lambda: self._has("form.who"), what="a page for a person")
        assert self._find("form.who span").text == name

    def acts(self, act: str) -> str:
        """Return status and text of the answer to an action."""
        token = self._find("form.who input[name=token]").get_attribute("value")
        return str(self.browser.execute_async_script(_ACT, act, token))

    def logs_out(self) -> None:
        """Log out of the console, and forget the login at the provider."""
        self._find("form.who button").click()
        eventually(lambda: self._has("input[name=password]"), what="the login page")
        here = self.browser.current_url
        self.browser.execute_cdp_cmd("Network.clearBrowserCookies", {})
        self.browser.get(here)

    def _is_there(self) -> bool:
        return urlsplit(self.browser.current_url).hostname == "localhost"

    def _has(self, selector: str) -> bool:
        return bool(self.browser.find_elements(By.CSS_SELECTOR, selector))

    def _find(self, selector: str) -> WebElement:
        eventually(lambda: self._has(selector), what=f"{selector} on the page")
        return self.browser.find_element(By.CSS_SELECTOR, selector)


def test_people_log_in_at_a_real_provider_cancel_come_back_and_log_out(
    opened: Open, folder: Path, tmp_path: Path
) -> None:
    users, secret, port = tmp_path / "people", tmp_path / "secret", free_port()
    users.write_text(lines() + "".join(f"{person_line(*one, None)}\n" for one in ROLES.items()))
    secret.write_text(f"{CLIENT_SECRET}\n")
    section = {
        "users_file": str(users),
        "oidc_issuer": f"http://localhost:{port}",
        "oidc_client_id": CLIENT_ID,
        "oidc_client_secret_file": str(secret),
    }
    console = str(opened(load(console=section)).base_url).rstrip("/")

    def provided() -> AbstractContextManager[int]:
        return openid_provider(folder, f"{console}/login/oidc/back", port=port)

    with chromium() as browser:
        person = AtProvider(browser, console)
        with provided():
            person.goes("/audit?of=today")
            person.logs_in(VERA)
            person.has_come_to("/audit", VERA)
            assert browser.current_url.endswith("/audit?of=today")
            assert "role operator" in person.acts("discard")
            # The address with the code is behind it: a page that is loaded again asks for none.
            browser.refresh()
            person.has_come_to("/audit", VERA)
            person.logs_out()

            person.goes("/audit")
            person.cancels()
            person.console.reads("Nobody was logged in", "access_denied")
            person.console.clicks_on("Log in")
            person.console.clicks_on("Log in at localhost")
            person.logs_in(OLGA)
            person.has_come_to("/audit", OLGA)
            assert "role operator" not in person.acts("discard")
            person.logs_out()

            person.goes("/audit")
            person.logs_in(NEW)
            person.console.reads("Nobody was logged in", "verified")
            browser.execute_cdp_cmd("Network.clearBrowserCookies", {})
            person.goes("/audit")
            person.logs_in("<img src=x>@shop.example")
            person.console.reads("<img src=x>@shop.example is nobody who may use this console")
        # It comes back with other keys.
        with provided():
            person.goes("/audit")
            person.logs_in(VERA)
            person.has_come_to("/audit", VERA)
