"""Payment forms in browsers, while worker, front door, Redis and broker are killed and come back.

Each order is charged once at most, and each tab ends on what the journal says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from selenium import webdriver

from feedback.status import FINAL
from onceward.servers.kafka import Broker
from onceward.servers.ports import free_port
from onceward.servers.redis import Redis
from tests.consumer.stage import Stage, open_stage
from tests.eventually import eventually
from tests.kit.serving import serving
from tests.kit.settings import environment
from tests.left_open import left_open
from tests.producer_client.http.site import Site
from tests.producer_client.http.tabs import Tab
from tests.producer_client.resenders import ClientProgram
from tests.stack import Servers
from tests.stack.restartable import Restartable, restartable

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(400),
    pytest.mark.usefixtures("no_given_servers"),
]

ENDS_WITHIN_S = 120.0
TAKES_S = 1.5
WORDS = {"SUCCEEDED": "Paid.", "IN_DOUBT": "We do not know yet", "FAILED": "Not paid"}


class Shop:
    """A site, its front door, a worker and a resender, on servers that may be killed."""

    def __init__(self, stage: Stage, folder: Path, kafka: Restartable, redis: Restartable) -> None:
        self.stage, self.kafka, self.redis = stage, kafka, redis
        self._folder = folder
        self._port = free_port()
        section = {"topics": list(stage.topics.values()), "port": self._port}
        self._config = str(stage.config(http=section))
        self._worker = stage.start()
        self.resender = self._program("resend", "--json")
        self._door = self._program("serve")
        self._door.told("http.started")
        self.site = Site(("127.0.0.1", self._port), stage.topics["work"])
        self.site.value = f"{{ order: action, amount, takes_s: {TAKES_S} }}"

    def _program(self, *words: str) -> ClientProgram:
        argv = (*words, "--config", self._config)
        return ClientProgram(environment(), self._folder, words[0], argv=argv)

    def close(self) -> None:
        """Kill what is left."""
        self._door.kill()
        self.resender.kill()

    def kill_worker(self) -> Callable[[], object]:
        """Kill it, and return how it comes back."""
        self._worker.kill()

        def back() -> None:
            self._worker = self.stage.start()

        return back

    def kill_door(self) -> Callable[[], object]:
        """Kill it, and return how it comes back, at its address."""
        self._door.kill()

        def back() -> None:
            self._door = self._program("serve")
            eventually(lambda: "http.started" in self._door.tail, timeout_s=60)

        return back

    def kill_redis(self) -> Callable[[], object]:
        """Kill it, and return how it comes back, with its data."""
        self.redis.kill()
        return self.redis.start

    def kill_broker(self) -> Callable[[], object]:
        """Kill it, and return how it comes back."""
        self.kafka.kill()
        return self.kafka.start


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """Yield a shop with servers of its own."""
    with ExitStack() as ends:
        ends.enter_context(left_open())
        kafka = ends.enter_context(restartable(Broker))
        redis = ends.enter_context(restartable(partial(Redis, keeps_data=True)))
        stage = ends.enter_context(
            open_stage(
                servers=Servers(kafka.address, redis.address, ""),
                journal_url=f"sqlite:///{tmp_path}/journal.db",
                folder=tmp_path,
                client={"poll_interval_s": 0.5, "resend_after_s": 5, "send_timeout_s": 4},
            )
        )
        one = Shop(stage, tmp_path, kafka, redis)
        ends.callback(one.close)
        ends.enter_context(serving(one.site))
        yield one


def test_each_order_is_charged_once_and_each_tab_ends_on_the_truth(
    shop: Shop, browser: webdriver.Chrome
) -> None:
    tabs: list[Tab] = []
    states: list[str] = []
    faults = (shop.kill_door, shop.kill_worker, shop.kill_redis, shop.kill_broker)
    for fault in faults:
        running, late = (Tab(browser, shop.site, f"{fault.__name__}-{n}") for n in "ab")
        running.pay()
        running.says("Your payment is under way")
        back = fault()
        late.pay()
        back()
        running.reload()
        tabs += [running, late]
        # The next fault finds none of these under way.
        states += [_truth(shop.stage, tab.request_id) for tab in (running, late)]
    for tab, state in zip(tabs, states, strict=True):
        tab.says(WORDS[state])
    runs = [run["request_id"] for run in shop.stage.runs()]
    assert sorted(runs) == sorted(set(runs))
    assert set(runs) <= {tab.request_id for tab in tabs}
    # A worker that is killed leaves the one that it ran in doubt, and no other.
    assert states.count("SUCCEEDED") >= len(tabs) - 1, states


def _truth(stage: Stage, request_id: str) -> str:
    """Return the state in the journal, once the request has ended."""

    def ended() -> str:
        row = stage.row(request_id)
        return str(row["state"]) if row is not None and row["state"] in FINAL else ""

    return eventually(ended, timeout_s=ENDS_WITHIN_S)
