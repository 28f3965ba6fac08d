"""One webhook: the alerts to post there, and when a failed post is tried again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from consumer.features.alerts.grouping import Alert
from consumer.features.alerts.message import AlertSender, body_of
from feedback.doubling import doubled
from feedback.logs import EventLog
from feedback.observer import Observer

log = EventLog("onceward.alerts")

Post = Callable[[str, Mapping[str, Any]], str | None]

# Of alerts that wait for a webhook that is away; the oldest are let go.
MOST_WAITING = 50
# The alerts of one message: a chat limits the length of a message.
AT_ONCE = 20
TRIES = 6
FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 300.0


class Outlet:
    """Posts alerts to one URL. Belongs to one thread.

    Logs `webhook.failed` once, however often it fails, and `webhook.back`.

    Args:
        url: a secret.
        post: posts; returns why it was not taken, None when it was.
        observers: hear how many alerts were `sent`, `failed` (a try) or `dropped`.
    """

    def __init__(
        self, url: str, *, post: Post, sender: AlertSender, observers: Sequence[Observer] = ()
    ) -> None:
        self._url = url
        self._post = post
        self._sender = sender
        self._observers = observers
        self._waiting: deque[Alert] = deque()
        self._tried = 0
        self._again_s = 0.0

    def add(self, alerts: Sequence[Alert]) -> None:
        """Take in alerts; those beyond the limit are dropped, the oldest first."""
        self._waiting.extend(alerts)
        self._drop(len(self._waiting) - MOST_WAITING)

    @property
    def next_due_s(self) -> float | None:
        """The monotonic time of the next try; None with nothing to post."""
        return self._again_s if self._waiting else None

    def post(self, now_s: float) -> None:
        while self._waiting and now_s >= self._again_s:
            some = list(self._waiting)[:AT_ONCE]
            fault = self._post(self._url, body_of(some, self._sender))
            if fault is None:
                self._taken(len(some))
            else:
                self._failed(fault, len(some), now_s)

    def _taken(self, count: int) -> None:
        for _ in range(count):
            one = self._waiting.popleft()
            log.info("alert.sent", kind=one.kind, topic=one.topic, count=one.count)
        if self._tried:
            log.info("webhook.back")
        self._tried, self._again_s = 0, 0.0
        self._counted("sent", count)

    def _failed(self, fault: str, count: int, now_s: float) -> None:
        if not self._tried:
            log.warning("webhook.failed", reason=fault)
        self._counted("failed", count)
        self._tried += 1
        self._again_s = now_s + doubled(FIRST_PAUSE_S, LONGEST_PAUSE_S, self._tried)
        if self._tried % TRIES == 0:
            self._drop(count)

    def _drop(self, count: int) -> None:
        for _ in range(count):
            one = self._waiting.popleft()
            log.warning("alert.dropped", kind=one.kind, topic=one.topic, count=one.count)
        if count > 0:
            self._counted("dropped", count)

    def _counted(self, what: str, count: int) -> None:
        for one in self._observers:
            one.counted("alerts", what, count)
