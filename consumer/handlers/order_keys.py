"""Which requests run one after the other: those of a topic with one key. Pure."""

from __future__ import annotations

from hashlib import sha256

from consumer.handlers.declaration import Order
from consumer.handlers.delivery import Delivery

Key = tuple[str, bytes]


def lane_of(one: Delivery) -> Key | None:
    """Return the scope in which its requests keep order; None when they keep none.

    A record without a key keeps none: it says of no other that they belong together.
    """
    record = one.record
    if one.handler.order is not Order.KEY or record.key is None:
        return None
    return one.handler.topic, record.key


def order_key(one: Delivery) -> str | None:
    """Return the name of that in the journal; None when it keeps no order.

    A hash, since a key may be longer than an index takes.

    >>> _hashed(("payments", b"card-7"))
    'fbeabb35af89e40ae9379d11ce7f7a4a'
    """
    queue = lane_of(one)
    return None if queue is None else _hashed(queue)


def _hashed(queue: Key) -> str:
    topic, key = queue
    # No topic has a NUL in its name, so no two queues are the same bytes.
    return sha256(topic.encode() + b"\0" + key).hexdigest()[:32]
