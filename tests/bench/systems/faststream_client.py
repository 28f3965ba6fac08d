"""The submitting process of FastStream: `python -m tests.bench.systems.faststream_client`."""

from __future__ import annotations

import asyncio
import os
import uuid

from faststream.kafka import (  # type: ignore[import-not-found]
    KafkaBroker,
    KafkaMessage,
)

from tests.bench.plan import TOPIC_VARIABLE
from tests.bench.submit.serving import payload, serve

TOPIC = os.environ[TOPIC_VARIABLE]
REPLIES = os.environ["BENCH_REPLIES"]
FINAL_WITHIN_S = 120.0


class FastStreamSubmitter:
    """Publishes requests and awaits their replies, matched by correlation id, in one event loop.

    `one` and `burst` are called in other threads than the loop's. A failed request has no reply.
    """

    def __init__(self, broker: KafkaBroker, loop: asyncio.AbstractEventLoop) -> None:
        self._broker = broker
        self._loop = loop
        self._payload = payload()
        self._waiting: dict[str, asyncio.Future[None]] = {}
        broker.subscriber(REPLIES, auto_offset_reset="earliest")(self.replied)

    async def replied(self, message: KafkaMessage) -> None:
        """Take a reply."""
        self._waiting.pop(message.correlation_id).set_result(None)

    def one(self) -> None:
        """Send one request and wait for its reply."""
        self.burst(1)

    def burst(self, count: int) -> None:
        """Send many, and return when the last has its reply."""
        asyncio.run_coroutine_threadsafe(self._burst(count), self._loop).result(FINAL_WITHIN_S)

    async def _burst(self, count: int) -> None:
        await asyncio.gather(*(self._one() for _ in range(count)))

    async def _one(self) -> None:
        name = uuid.uuid4().hex
        self._waiting[name] = replied = self._loop.create_future()
        await self._broker.publish(self._payload, TOPIC, correlation_id=name, reply_to=REPLIES)
        await replied


async def main() -> None:
    """Serve until standard input ends."""
    broker = KafkaBroker(os.environ["BENCH_KAFKA"], logger=None)
    submitter = FastStreamSubmitter(broker, asyncio.get_running_loop())
    async with broker:
        await broker.start()
        await asyncio.to_thread(serve, submitter)


if __name__ == "__main__":
    asyncio.run(main())
