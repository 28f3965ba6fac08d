"""Kafka killed under callers that have an outbox to fall back to, and back after its time."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from feedback.clock import monotonic_s
from feedback.errors import OncewardError
from producer_client import Client
from tests.bench.outbox.cases import LIMIT_S, Figures
from tests.bench.outbox.scene import Scene
from tests.eventually import eventually
from tests.stack.restartable import Restartable

CALLERS = 64
# Before Kafka goes and after the outbox is empty again.
AROUND_S = 10.0


def cut(scene: Scene, *, broker: Restartable, away_s: float, rate: float = 200.0) -> Figures:
    """Send at a rate while the broker is there, away for so long, and there again."""
    drained_after_s: list[float] = []

    def outage() -> None:
        time.sleep(AROUND_S)
        broker.kill()
        time.sleep(away_s)
        broker.start()
        back_s = monotonic_s()
        # While sends go on: none of them needs the outbox any more.
        eventually(lambda: scene.waiting() == 0, timeout_s=LIMIT_S, interval_s=0.05)
        drained_after_s.append(monotonic_s() - back_s)
        time.sleep(AROUND_S)

    network = threading.Thread(target=outage)
    with Client(scene.settings, outbox=scene.url) as client, scene.relay():
        network.start()
        callers = _Callers(client, until=lambda: not network.is_alive())
        callers.send(rate)
        eventually(lambda: scene.waiting() == 0, timeout_s=LIMIT_S, interval_s=0.1)
        in_outbox = scene.sent()
    found = Counter(scene.in_topic())
    return {
        "case": "cut",
        "away_s": away_s,
        "sends": len(callers.took_s),
        "refused": dict(Counter(str(error) for error in callers.refused)),
        "slowest_send_s": round(max(callers.took_s), 2),
        "send_timeout_s": scene.settings.client.send_timeout_s,
        "in_outbox": in_outbox,
        "drained_after_s": round(drained_after_s[0], 1),
        "lost": len(callers.sent - found.keys()),
        "sent_twice": sum(found.values()) - len(found),
    }


class _Callers:
    """Those who send, each as long as its send takes, at times that do not wait for them."""

    def __init__(self, client: Client, *, until: Callable[[], bool]) -> None:
        self._client = client
        self._is_over = until
        self.took_s: list[float] = []
        self.sent: set[str] = set()
        self.refused: list[OncewardError] = []

    def send(self, rate: float) -> None:
        """Return when all that was due until the end has been sent."""
        began_s, number = monotonic_s(), 0
        with ThreadPoolExecutor(CALLERS) as callers:
            while not self._is_over():
                time.sleep(max(0.0, began_s + number / rate - monotonic_s()))
                callers.submit(self._one, f"c{number:08}")
                number += 1

    def _one(self, name: str) -> None:
        began_s = monotonic_s()
        try:
            self._client.send(b"v" * 200, key=name, request_id=name)
            self.sent.add(name)
        except OncewardError as error:
            self.refused.append(error)
        self.took_s.append(monotonic_s() - began_s)
