"""The payment form in a real browser: it cannot pay twice, and it ends on the true outcome."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By

from feedback.records.envelope import decode_headers
from feedback.status import State
from tests.eventually import eventually
from tests.kit.serving import serving
from tests.producer_client.http.conftest import Served
from tests.producer_client.http.site import Site

LIMIT_S = 30.0
UNDER_WAY, AWAY, PAID = "Your payment is under way.", "The network is away.", "Paid."


@pytest.fixture(scope="module")
def site(front: Served) -> Iterator[Site]:
    """Yield a site with the form."""
    one = Site(front.address, front.topic)
    with serving(one):
        yield one


def _logged(browser: webdriver.Chrome) -> list[str]:
    """Return the lines of its console since the last call."""
    lines: list[dict[str, str]] = browser.get_log("browser")  # type: ignore[no-untyped-call]
    return [line["message"] for line in lines]


class Tab:
    """The form of an order that nobody has paid."""

    def __init__(self, browser: webdriver.Chrome, site: Site, front: Served) -> None:
        self.browser = browser
        self.site = site
        self._front = front
        self._before = len(front.records())
        site.begin(f"order-{uuid.uuid4().hex[:8]}")
        self.load()

    def load(self) -> None:
        """Load the form, as typing its address does."""
        self.browser.get(self.site.url)

    def pay(self) -> None:
        """Press the button, once it can be pressed."""
        button = self.browser.find_element(By.ID, "pay")
        eventually(button.is_enabled)
        button.click()

    def said(self) -> str:
        """Return the page's word on the payment."""
        return self.browser.find_element(By.ID, "said").text

    def says(self, beginning: str) -> None:
        """Return when the page says this."""
        try:
            eventually(lambda: self.said().startswith(beginning), timeout_s=LIMIT_S)
        except TimeoutError:
            logged = _logged(self.browser)
            raise AssertionError(f"not {beginning!r} but {self.said()!r}: {logged}") from None

    def may_pay(self) -> bool:
        """Whether the button can be pressed."""
        return self.browser.find_element(By.ID, "pay").is_enabled()

    def requests(self) -> list[str]:
        """Return the ids that Kafka has of this order, each once."""
        records = self._front.records()[self._before :]
        return list(dict.fromkeys(str(decode_headers(one).request_id) for one in records))

    def tell(self, state: State, *, is_running: bool = True, **fields: str) -> None:
        """Tell how the one request, or the last, ended."""
        if is_running:
            self._front.worker.tell(self.requests()[-1], State.RUNNING)
        self._front.worker.tell(self.requests()[-1], state, is_heard=True, **fields)


@pytest.fixture
def tab(browser: webdriver.Chrome, site: Site, front: Served) -> Iterator[Tab]:
    """Yield a tab; nothing in it broke the content security policy or raised."""
    one = Tab(browser, site, front)
    _logged(browser)
    yield one
    assert [line for line in _logged(browser) if "Security" in line or "Uncaught" in line] == []


def test_a_double_click_pays_once_and_so_do_reload_and_the_back_button(tab: Tab) -> None:
    tab.browser.execute_script(
        "const f = document.querySelector('form');"
        "for (let n = 0; n < 5; n++) f.requestSubmit(), document.getElementById('pay').click();"
    )
    tab.says(UNDER_WAY)
    tab.load()
    tab.says(UNDER_WAY)
    assert not tab.may_pay()
    tab.tell(State.SUCCEEDED)
    tab.says(PAID)
    if folder := os.environ.get("ONCEWARD_SCREENSHOTS"):
        tab.browser.save_screenshot(f"{folder}/paid.png")
    tab.browser.refresh()
    tab.says(PAID)
    tab.browser.get("about:blank")
    tab.browser.back()
    tab.says(PAID)
    assert not tab.may_pay()
    assert (len(tab.requests()), tab.site.submissions) == (1, 1)


def test_two_tabs_that_share_the_key_of_their_server_are_one_payment(tab: Tab) -> None:
    tab.site.key = f"{tab.site.order}-1"
    tab.load()
    tab.pay()
    tab.says(UNDER_WAY)
    first = tab.browser.current_window_handle
    tab.browser.switch_to.new_window("tab")
    tab.load()
    tab.pay()
    tab.says(UNDER_WAY)
    tab.tell(State.SUCCEEDED)
    tab.says(PAID)
    tab.browser.close()
    tab.browser.switch_to.window(first)
    tab.says(PAID)
    assert (len(tab.requests()), tab.site.submissions) == (1, 2)


def test_a_submission_whose_answer_is_lost_is_sent_again_as_the_same_one(tab: Tab) -> None:
    tab.site.lost = 2
    tab.pay()
    tab.says(AWAY)
    # The answer is not there yet, and its page begins anew.
    tab.browser.refresh()
    tab.says(UNDER_WAY)
    tab.tell(State.SUCCEEDED)
    tab.says(PAID)
    assert len(tab.requests()) == 1
    assert tab.site.submissions > 1


def test_a_network_that_goes_away_in_the_middle_changes_nothing(tab: Tab) -> None:
    def network(*, is_there: bool) -> None:
        tab.browser.set_network_conditions(
            offline=not is_there, latency=0, download_throughput=-1, upload_throughput=-1
        )

    try:
        network(is_there=False)
        tab.pay()
        tab.says(AWAY)
        assert tab.requests() == []
        network(is_there=True)
        tab.says(UNDER_WAY)
        # The page says so before its stream is open, and one that is not open is not cut.
        eventually(lambda: tab.site.streams)
        tab.site.is_away = True
        tab.site.cut_streams()
        tab.says(AWAY)
        tab.tell(State.SUCCEEDED)
        tab.site.is_away = False
        tab.says(PAID)
        assert len(tab.requests()) == 1
    finally:
        tab.browser.delete_network_conditions()


def test_where_no_stream_goes_through_the_page_asks(tab: Tab) -> None:
    tab.site.answers["GET /v1/requests/"] = (404, b"{}")
    tab.pay()
    tab.says(UNDER_WAY)
    # Its token is refused: it gets another one by its key.
    eventually(lambda: tab.site.submissions > 1)
    del tab.site.answers["GET /v1/requests/"]
    tab.tell(State.SUCCEEDED)
    tab.says(PAID)
    assert len(tab.requests()) == 1


def test_after_a_failure_the_customer_may_pay_again(tab: Tab) -> None:
    tab.pay()
    tab.says(UNDER_WAY)
    tab.tell(State.FAILED, code="CARD_REFUSED", message="<b>the card</b> is refused")
    tab.says("Not paid (<b>the card</b> is refused).")
    tab.browser.refresh()
    tab.says("Not paid")
    tab.browser.find_element(By.ID, "again").click()
    tab.pay()
    tab.says(UNDER_WAY)
    tab.tell(State.SUCCEEDED)
    tab.says(PAID)
    assert len(tab.requests()) == 2


def test_a_doubt_lets_nobody_pay_again_and_its_resolution_is_seen(tab: Tab) -> None:
    tab.pay()
    tab.says(UNDER_WAY)
    tab.tell(State.IN_DOUBT)
    tab.says("We do not know yet")
    assert not tab.may_pay()
    assert not tab.browser.find_element(By.ID, "again").is_displayed()
    tab.browser.refresh()
    tab.says("We do not know yet")
    assert not tab.may_pay()
    tab.tell(State.SUCCEEDED, is_running=False)
    tab.browser.refresh()
    tab.says(PAID)
    assert len(tab.requests()) == 1


def test_a_form_that_was_refused_is_open_again_unless_an_earlier_try_may_have_gone_through(
    tab: Tab,
) -> None:
    tab.site.answers["POST"] = (401, b'{"title": "Who are you?"}')
    tab.pay()
    tab.says("Not taken: Who are you?.")
    assert tab.may_pay() and tab.requests() == []
    tab.site.answers.clear()
    tab.site.lost = 1
    tab.pay()
    eventually(lambda: tab.site.lost == 0)
    tab.site.answers["POST"] = (401, b'{"title": "Who are you?"}')
    tab.says("Reload this page to go on (Who are you?)")
    assert not tab.may_pay()
    tab.site.answers.clear()
    tab.browser.refresh()
    tab.says(UNDER_WAY)
    tab.tell(State.SUCCEEDED)
    tab.says(PAID)
    assert len(tab.requests()) == 1
