"""Events and alerts as the unit tests need them."""

from __future__ import annotations

from typing import Any

from consumer.features.alerts.alerts import FailureBurst
from consumer.features.alerts.grouping import Alert, AlertEvent, AlertKind
from consumer.features.alerts.message import AlertSender

NOW_MS = 1_700_000_000_000
SENDER = AlertSender("shop", "host-1-abc", "payments.toml")


def event(kind: AlertKind = AlertKind.FIRST, code: str = "BUSY", **facts: Any) -> AlertEvent:
    """Return an event about topic `payments`."""
    known: dict[str, Any] = {"topic": "payments", "at_ms": NOW_MS, "code": code}
    return AlertEvent(kind, **known | facts)


def failure(code: str = "BUSY", requests: int = 1, **facts: Any) -> FailureBurst:
    """Return failures of topic `payments`."""
    known: dict[str, Any] = {"topic": "payments", "request_id": "a", "message": "no"}
    return FailureBurst(code=code, requests=requests, **known | facts)


def alert(kind: AlertKind = AlertKind.FIRST, **facts: Any) -> Alert:
    """Return an alert about topic `payments`."""
    known: dict[str, Any] = {"topic": "payments", "first_at": NOW_MS, "last_at": NOW_MS + 5}
    return Alert(kind, **known | facts)
