"""The bridge from a thread to the coroutines of a send.

The steps are written once, as coroutines over the protocols here. Where calls to Redis and Kafka
block (`blocking_sends`), nothing ever suspends: `at_once` runs a coroutine like any function, and
`each` an asynchronous generator like a plain one. Where they suspend (`async_client`), a loop runs
them.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Coroutine, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from feedback.redis.memory import RedisMemory
from feedback.statuses import Replaced, Status, StatusWrite, WriteAnswer

T = TypeVar("T")


class Statuses(Protocol):
    """Writes statuses; `feedback.redis.async_store` as it is."""

    @property
    def group(self) -> str: ...
    async def replace(
        self, writes: Sequence[StatusWrite], *, look_at: int | None = None
    ) -> list[WriteAnswer]: ...
    async def read_many(self, request_ids: Sequence[str]) -> list[Status]: ...
    async def memory(self, request_id: str | None) -> RedisMemory: ...
    async def forget(
        self,
        request_id: str,
        *,
        attempt: int,
        payload_sha256: str,
        deadline_at: int | None,
        replaced: Replaced | None = None,
    ) -> bool: ...


class OnItsWay(Protocol):
    """A record that was handed over."""

    async def ending(self) -> object:
        """Return when Kafka has it.

        Raises:
            RecordNotSent, RecordUnknown: see `PendingRecord.result`.
        """
        ...

    def take_back(self) -> bool:
        """Keep it from being sent; say whether that was still possible."""
        ...


class Sender(Protocol):
    """Hands records to Kafka."""

    def send(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes]],
        deadline_s: float | None = None,
    ) -> OnItsWay: ...


def at_once(way: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never suspends, because nothing it awaits does."""
    try:
        way.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    way.close()
    raise RuntimeError("a call that should have blocked was suspended")


def each(results: AsyncGenerator[T]) -> Iterator[T]:
    """Yield the results of an asynchronous generator that never suspends; close it at the end."""
    try:
        while True:
            try:
                one = at_once(results.__anext__())
            except StopAsyncIteration:
                return
            yield one
    finally:
        at_once(results.aclose())


async def sleep(pause_s: float) -> None:
    """Hold up the thread for a pause."""
    time.sleep(pause_s)
