"""Waits for a status to change, for asyncio: by event, with polling as the fallback.

One connection serves all waits of a loop. A missed event costs one polling interval, never
correctness: the caller reads the status itself again.

Theory of operation. Only two tasks of the listener touch the connection: one reads and replaces it
after a fault, the other subscribes to new channels and leaves old ones. A caller that begins or
ends a watch only notes it, so a wait that is cancelled at any point breaks nothing and leaves
nothing. A watch begins when Redis has confirmed it: before that a change could pass between the
caller's read and the first event.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.exceptions import RedisError

from feedback.redis.store_calls import StoreCalls
from feedback.tasks import end_tasks

CONFIRMED_S = 0.25
READ_S = 1.0
AWAY_PAUSE_S = 0.5
# redis-py stumbles over a connection that another task has just closed.
FAULTS = (RedisError, OSError, ValueError, AttributeError, TypeError, RuntimeError)


class AsyncWatch:
    """The published changes of some requests. Made by `AsyncEventListener.watch`."""

    def __init__(self) -> None:
        self.has_begun = False
        self._changed: set[str] = set()
        self._is_told = asyncio.Event()

    def tell(self, request_id: str) -> None:
        """Note that a request changed, and wake the waiting caller."""
        self._changed.add(request_id)
        self._is_told.set()

    async def wait(self, timeout_s: float) -> set[str]:
        """Return the requests that changed since the last call, after at most `timeout_s`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._is_told.wait()
        self._is_told.clear()
        changed, self._changed = self._changed, set()
        return changed


class AsyncEventListener:
    """Receives the events of the requests that tasks of this loop wait for.

    Args:
        redis: from `feedback.redis.async_store.connect_async`; the first wait takes one of its
            connections.
        calls: names the channels.
    """

    def __init__(self, redis: Redis, calls: StoreCalls) -> None:
        self._redis = redis
        self._calls = calls
        self._watches: dict[str, set[AsyncWatch]] = {}
        self._ids: dict[str, str] = {}
        self._confirmed: dict[str, asyncio.Event] = {}
        self._subscribed: set[str] = set()
        self._heard: set[str] = set()
        self._has_news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.is_closed = False

    @contextlib.asynccontextmanager
    async def watch(self, request_ids: Sequence[str]) -> AsyncIterator[AsyncWatch]:
        """Receive the changes of these requests until the block is left.

        With Redis away there are no events and no error: the caller's polling finds out. When it is
        back all watched requests count as changed.
        """
        watch = AsyncWatch()
        channels = {self._calls.events_channel(one): one for one in request_ids}
        for channel, request_id in channels.items():
            self._watches.setdefault(channel, set()).add(watch)
            self._ids[channel] = request_id
            confirmed = self._confirmed.setdefault(channel, asyncio.Event())
            if channel in self._heard:
                confirmed.set()
        self._has_news.set()
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._listen(), name="onceward-events")]
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CONFIRMED_S):
                    for channel in channels:
                        await self._confirmed[channel].wait()
            watch.has_begun = True
            yield watch
        finally:
            self._leave(watch, channels)

    def wake_all(self) -> None:
        """Note the closing, and wake the waiting callers."""
        self.is_closed = True
        self.wake()

    def wake(self) -> None:
        """Let each waiting caller look: all watched requests count as changed."""
        for channel, watches in self._watches.items():
            for watch in watches:
                watch.tell(self._ids[channel])

    async def aclose(self) -> None:
        """Stop listening and close the connection."""
        self.wake_all()
        tasks, self._tasks = self._tasks, []
        await end_tasks(tasks)

    def _leave(self, watch: AsyncWatch, channels: dict[str, str]) -> None:
        for channel in channels:
            self._watches[channel].discard(watch)
            if not self._watches[channel]:
                del self._watches[channel], self._ids[channel], self._confirmed[channel]
        self._has_news.set()

    async def _listen(self) -> None:
        while True:
            pubsub: PubSub = self._redis.pubsub()
            self._subscribed, self._heard = set(), set()
            try:
                # Nobody publishes here. A connection always has one channel, and so can be read.
                await pubsub.subscribe(f"{self._calls.prefix}events")
                await self._read_and_subscribe(pubsub)
            except FAULTS:
                await asyncio.sleep(AWAY_PAUSE_S)
            finally:
                for confirmed in self._confirmed.values():
                    confirmed.clear()
                with contextlib.suppress(*FAULTS):
                    await pubsub.aclose()  # type: ignore[no-untyped-call]

    async def _read_and_subscribe(self, pubsub: PubSub) -> None:
        subscribing = asyncio.create_task(self._subscribe(pubsub), name="onceward-subscribing")
        reading = asyncio.create_task(self._read(pubsub), name="onceward-reading")
        try:
            done, _ = await asyncio.wait(
                (subscribing, reading), return_when=asyncio.FIRST_COMPLETED
            )
            for one in done:
                one.result()  # it ends by a fault only
        finally:
            await end_tasks((subscribing, reading))

    async def _subscribe(self, pubsub: PubSub) -> None:
        while True:
            self._has_news.clear()
            fresh = self._watches.keys() - self._subscribed
            gone = self._subscribed - self._watches.keys()
            self._subscribed = set(self._watches)
            self._heard -= gone
            if fresh:
                await pubsub.subscribe(*fresh)
            if gone:
                await pubsub.unsubscribe(*gone)
            await self._has_news.wait()

    async def _read(self, pubsub: PubSub) -> None:
        while True:
            message = await pubsub.get_message(timeout=READ_S)
            if message is not None:
                self._hear(message["type"], message["channel"].decode())

    def _hear(self, kind: str, channel: str) -> None:
        if kind == "subscribe":
            self._heard.add(channel)
            if channel in self._confirmed:
                self._confirmed[channel].set()
                # For a watch that has begun this comes late: missed events are unknown.
                for watch in self._watches[channel]:
                    if watch.has_begun:
                        watch.tell(self._ids[channel])
        if kind == "message" and channel in self._ids:
            for watch in self._watches[channel]:
                watch.tell(self._ids[channel])
