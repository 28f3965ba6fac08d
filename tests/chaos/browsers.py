"""Browsers are the clients: payment forms in tabs, through the deaths of each process and server.

What a tab says at its end is what its client was told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from selenium import webdriver

from feedback.clock import monotonic_s
from feedback.status import FINAL, State
from onceward.servers.ports import HOST, free_port
from tests.chaos.figure import Figure
from tests.chaos.orders import Kind, Order
from tests.chaos.row import LIGHT, JournalKind, Own, Row
from tests.chaos.scene import Scene
from tests.chaos.tickets import Ticket
from tests.eventually import eventually
from tests.kit.chromium import chromium
from tests.kit.serving import serving
from tests.producer_client.http.site import Site
from tests.producer_client.http.tabs import Tab

# A browser has six connections to a site, and a tab that follows a payment holds one.
TABS = 4
TAKES_MS = 1_500
UNDER_WAY = "Your payment is under way"
AWAY_S = 4.0
ENDS_WITHIN_S = 120.0

Fault = Callable[[], AbstractContextManager[None]]


class Shop:
    """A site with payment forms, and the front door behind it."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._topic = scene.place.topics[Kind.MARKED]
        self._port = free_port()
        self._door = scene.start_door(self._port, self._topic)
        self.site = Site((HOST, self._port), self._topic)
        body = "name: action, kind: 'marked', deed: 'charge', gate: '', asked: 1"
        self.site.value = f"{{ {body}, takes_ms: {TAKES_MS} }}"

    @contextmanager
    def door_down(self) -> Iterator[None]:
        """Kill the front door, and have it back after the block."""
        self._door.kill()
        yield
        self._door = self._scene.start_door(self._port, self._topic)

    @contextmanager
    def worker_down(self) -> Iterator[None]:
        """Kill the worker, and have another one after the block."""
        self._scene.fleet.kill_all()
        yield
        self._scene.fleet.start()

    @property
    def faults(self) -> tuple[Fault, ...]:
        """All that may die here."""
        ground = self._scene.ground
        return self.worker_down, self.door_down, ground.redis.down, ground.kafka.down


def browsers(scene: Scene) -> list[Figure]:
    """Pay in tabs while worker, front door, Redis and broker are killed and come back."""
    scene.start_workers(1)
    shop = Shop(scene)
    faults = list(shop.faults) * scene.size(5, short=1)
    scene.random.shuffle(faults)
    ends: Counter[State | None] = Counter()
    with serving(shop.site), chromium() as browser:
        for number, fault in enumerate(faults):
            names = [f"{scene.place.name}-{number}-{at}" for at in range(TABS)]
            ends.update(_paid_through(scene, shop, fault, browser, names))
    return [
        Figure("tabs that ended on a payment", ends[State.SUCCEEDED], least=1),
        Figure("submissions of the forms", shop.site.submissions, least=sum(ends.values())),
    ]


def _paid_through(
    scene: Scene, shop: Shop, fault: Fault, browser: webdriver.Chrome, names: Sequence[str]
) -> list[State | None]:
    """Pay each of these orders, half of them before a fault and half in it; return their ends."""
    tabs = [Tab(browser, shop.site, name) for name in names]
    tickets: list[Ticket] = []

    def pay(at: int) -> None:
        tickets.append(Ticket(Order(names[at], Kind.MARKED, TAKES_MS), monotonic_s()))
        tabs[at].pay()
        scene.clients.keep(tabs[at].request_id, tickets[at])

    for at in range(TABS // 2):
        pay(at)
    tabs[0].says(UNDER_WAY)
    scene.pause(scene.random.uniform(0.0, 1.0))
    with fault():
        for at in range(TABS // 2, TABS):
            pay(at)
        scene.pause(scene.random.uniform(0.0, AWAY_S))
    scene.random.choice(tabs).reload()
    for tab, ticket in zip(tabs, tickets, strict=True):
        _note_end(tab, ticket)
        tab.close()
    return [one.told for one in tickets]


def _note_end(tab: Tab, ticket: Ticket) -> None:
    """Note the state on which a tab ends; one that does not end was never told."""
    try:
        eventually(lambda: tab.state in FINAL, timeout_s=ENDS_WITHIN_S, interval_s=0.1)
    except TimeoutError:
        return
    ticket.told, ticket.told_s = State(tab.state), monotonic_s()


ROWS = (
    Row(
        "browsers",
        "payment forms in Chromium; worker, front door, Redis and broker killed in turn",
        JournalKind.SQLITE,
        browsers,
        own=frozenset({Own.KEPT_REDIS, Own.KAFKA}),
        settings={**LIGHT, "client": {"resend_after_s": 5, "send_timeout_s": 4}},
    ),
)
