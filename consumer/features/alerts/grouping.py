"""One alert of many events, and silence between two of a kind. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class AlertKind(StrEnum):
    """The reason of an alert to the owner of a topic."""

    FIRST = "first"  # a failure of a code that was not seen for a day
    RATE = "rate"  # more dead letters a minute than is usual
    AGE = "age"  # a dead letter has waited for long
    HINDERED = "hindered"  # dead letters cannot be written
    PAUSED = "paused"  # the topic was paused


class AlertEvent(NamedTuple):
    """One thing that has happened.

    Attributes:
        requests: how many it is about.
        detail: one line of unchecked text.
        level: how many in a minute, or for how many seconds, by the kind.
        is_more: nothing by itself, but counted where an alert of its kind and code waits.
    """

    kind: AlertKind
    topic: str
    at_ms: int
    requests: int = 1
    code: str = ""
    request_id: str = ""
    detail: str = ""
    by: str = ""
    level: float = 0.0
    is_more: bool = False


GATHER_S = 2.0
MOST_CODES = 20
MOST_IDS = 3
OTHER = "OTHER"
# Said again and again while it lasts: the newest says all.
_LASTING = (AlertKind.AGE, AlertKind.HINDERED)


@dataclass(slots=True)
class Alert:
    """One alert to the owner of a topic.

    Attributes:
        detail, by, level: of the last event that says so.
        first_at, last_at: epoch ms of its events.
    """

    kind: AlertKind
    topic: str
    first_at: int
    last_at: int
    count: int = 0
    codes: dict[str, int] = field(default_factory=dict)
    request_ids: list[str] = field(default_factory=list)
    detail: str = ""
    by: str = ""
    level: float = 0.0

    def add(self, event: AlertEvent) -> None:
        self.last_at = event.at_ms
        self.count = event.requests if self.kind in _LASTING else self.count + event.requests
        if event.code:
            known = event.code in self.codes or len(self.codes) < MOST_CODES
            code = event.code if known else OTHER
            self.codes[code] = self.codes.get(code, 0) + event.requests
        if event.request_id and len(self.request_ids) < MOST_IDS:
            self.request_ids.append(event.request_id)
        self.detail = event.detail or self.detail
        self.by = event.by or self.by
        self.level = event.level if self.kind is AlertKind.AGE else max(self.level, event.level)


class AlertGrouping:
    """Gathers events into alerts. Belongs to one thread at a time."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._waiting: dict[tuple[str, AlertKind], tuple[Alert, float]] = {}
        self._quiet_until_s: dict[tuple[str, AlertKind], float] = {}

    def add(self, events: Iterable[AlertEvent], *, now_s: float) -> None:
        """Take in events; now_s is monotonic."""
        for event in events:
            name = (event.topic, event.kind)
            waiting = self._waiting.get(name)
            if waiting is None:
                if event.is_more:
                    continue
                due_s = max(now_s + GATHER_S, self._quiet_until_s.get(name, 0.0))
                waiting = Alert(event.kind, event.topic, event.at_ms, event.at_ms), due_s
                self._waiting[name] = waiting
            alert, _ = waiting
            if not event.is_more or event.code in alert.codes:
                alert.add(event)

    def take_due(self, now_s: float) -> list[Alert]:
        """Remove and return the alerts that are due, and be quiet about their kinds.

        With the first that is due go all others that need not be quiet: one message, not several.
        """
        if self.next_due_s is None or self.next_due_s > now_s:
            return []
        due = [name for name in self._waiting if self._quiet_until_s.get(name, 0.0) <= now_s]
        for name in due:
            self._quiet_until_s[name] = now_s + self._every_s
        return [self._waiting.pop(name)[0] for name in due]

    def take_all(self) -> list[Alert]:
        """Remove and return all waiting alerts: there is no later time to post them."""
        return self.take_due(float("inf"))

    @property
    def next_due_s(self) -> float | None:
        """The monotonic time at which there is an alert to send."""
        return min((due_s for _, due_s in self._waiting.values()), default=None)
