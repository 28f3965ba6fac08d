"""Deliveries of a handler that keeps the order of its keys."""

from __future__ import annotations

import itertools

from consumer.handlers.declaration import Order
from consumer.handlers.delivery import Delivery, receive
from tests.consumer.samples import named, payments

_offsets = itertools.count(100)


def asked(
    request_id: str,
    key: bytes | None = b"k",
    *,
    attempt: int = 1,
    value: bytes = b"{}",
    buffered_s: float = 0.0,
    wakes: int = 0,
    order: Order = Order.KEY,
    topic: str = "payments",
) -> Delivery:
    """Return a delivery, read after all that were asked for before."""
    sent = named(request_id, attempt)._replace(key=key, value=value, offset=next(_offsets))
    handler = payments(order=order)
    found = receive(
        sent._replace(topic=topic),
        handler,
        group="test",
        default_deadline_s=60.0,
        now_s=buffered_s,
        now_ms=0,
    )
    assert isinstance(found, Delivery)
    return found._replace(wakes=wakes)


def names(deliveries: object) -> list[str]:
    """Return the ids of deliveries, in order."""
    assert isinstance(deliveries, list)
    return [one.request_id for one in deliveries]
