"""The two roads of a client's record: its sender, and the same sender behind tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, Protocol, get_args

from feedback.kafka.durability import PLAIN, Durability
from feedback.kafka.scan import KafkaScan
from feedback.kafka.senders import open_sender
from feedback.kafka.sending import KafkaSender
from feedback.settings.settings import KafkaSection
from producer_client.sending.async_sender import AsyncSender

RoadName = Literal["threads", "tasks"]
ROADS = get_args(RoadName)
TIMEOUT_S = 2.0
LIMIT_BYTES = 100_000


class Road(Protocol):
    """Sends one record and returns or raises when its end is known."""

    def send(self, topic: str, value: Any = b"v", **given: Any) -> Any:
        """Send a record with a key."""

    def close(self) -> None:
        """Close for good."""


class Threads:
    """The sender itself."""

    def __init__(self, sender: KafkaSender) -> None:
        self._sender = sender
        self.close = sender.close

    def send(self, topic: str, value: Any = b"v", **given: Any) -> Any:
        """Send a record with a key."""
        one = {"key": b"k", "headers": []} | given
        return self._sender.send(topic, value=value, **one).result()


class Tasks:
    """The sender behind the one of asyncio, and a loop."""

    def __init__(self, sender: KafkaSender) -> None:
        self._runner = asyncio.Runner()
        self._sender = AsyncSender(sender, send_timeout_s=TIMEOUT_S)
        self._is_open = True

    def send(self, topic: str, value: Any = b"v", **given: Any) -> Any:
        """Send a record with a key."""
        one = {"key": b"k", "headers": []} | given

        async def ended() -> Any:
            return await self._sender.send(topic, value=value, **one).ending()

        return self._runner.run(ended())

    def close(self) -> None:
        """Close for good; its loop goes on."""
        if self._is_open:
            self._is_open = False
            self._runner.run(self._sender.aclose())

    def end(self) -> None:
        """Close its loop."""
        self._runner.close()


@contextmanager
def opened_road(
    name: RoadName, where: KafkaSection, *, durability: Durability = PLAIN
) -> Iterator[Road]:
    """Yield a road to a broker."""
    sender = open_sender(
        where, send_timeout_s=TIMEOUT_S, max_request_bytes=LIMIT_BYTES, durability=durability
    )
    if name == "threads":
        threads = Threads(sender)
        yield threads
        threads.close()
        return
    tasks = Tasks(sender)
    try:
        yield tasks
        tasks.close()
    finally:
        tasks.end()


def values(where: KafkaSection, topic: str) -> list[bytes | None]:
    """Return what the topic holds."""
    with KafkaScan(where) as scan:
        pages = scan.pages(scan.spans([topic]))
        return [one.value for page in pages for one in page.records]
