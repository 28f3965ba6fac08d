"""The two worlds of a send: blocking and asyncio calls to Redis and Kafka.

The steps of both are written once, as coroutines over the protocols here. Where calls block
(`sending`), nothing ever suspends, and `at_once` runs a coroutine like any function. Where they
suspend (`async_client`), a loop runs it.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from feedback.redis.memory import RedisMemory
from feedback.statuses import Answer, Replaced, Status, StatusWrite

T = TypeVar("T")


class Statuses(Protocol):
    """Writes statuses; `feedback.redis.async_store` as it is."""

    async def replace(
        self, writes: Sequence[StatusWrite], *, look_at: int | None = None
    ) -> list[Answer]: ...
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
