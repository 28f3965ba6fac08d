"""Engines of brokers that live in this process, each found by the address of its broker.

The address chooses, and no value of `[kafka] client`: a setting lasts and is copied to production,
while such an address is of no use outside of the block that opened it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from feedback.kafka.engine import Engine

_OPENED: dict[str, Engine] = {}


def engine_at(bootstrap_servers: str) -> Engine | None:
    """Return the engine of the broker with this address; None where none lives in this process."""
    return _OPENED.get(bootstrap_servers)


@contextmanager
def engine_opened_at(bootstrap_servers: str, engine: Engine) -> Iterator[None]:
    """Give this engine to each connection with this address, for the length of the block."""
    _OPENED[bootstrap_servers] = engine
    try:
        yield
    finally:
        del _OPENED[bootstrap_servers]
