"""Deliveries of a handler that collapses."""

from __future__ import annotations

from typing import Any

from consumer.handlers.declaration import Handler, Order
from consumer.handlers.delivery import Delivery
from tests.consumer.loop.order import samples as ordered
from tests.consumer.samples import payments

TOPIC = "payments"


def yes(request: object) -> bool:
    """Let every request stand in for others."""
    return True


def collapsing(**settings: Any) -> Handler:
    """Return a handler that collapses."""
    return payments(order=Order.KEY, collapse=yes, **settings)


def asked(request_id: str, key: bytes | None = b"k", **facts: Any) -> Delivery:
    """Return a delivery, read after all that were asked for before."""
    return ordered.asked(request_id, key, **facts)._replace(handler=collapsing())
