"""Statuses in Redis for asyncio: only a client's reads and writes; the calls are `store`'s.

A thousand tasks share few connections: their simultaneous writes and reads are one call
(`grouped`). Each call waits for its turn, for no longer than Redis may take to answer; a call that
waited in vain has certainly done nothing. A write or a read ends within twice that time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, cast

from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError

from feedback.errors import RedisUnavailable
from feedback.records.stored_payload import StoredPayload
from feedback.redis.async_sockets import async_connection_class
from feedback.redis.logins import log_in_by_file
from feedback.redis.memory import LOOK, RedisMemory, decode_look
from feedback.redis.request_coalescing import GROUP, CoalescedCalls
from feedback.redis.server import RedisSettings, guarded, replies_of
from feedback.redis.status_script import FORGET, PLACE, SCRIPT, UNPLACED
from feedback.redis.store_calls import StoreCalls, holders_of
from feedback.statuses import (
    Refused,
    Replaced,
    Status,
    StatusWrite,
    WriteAnswer,
    decode_answer,
    decode_hash,
    refusals_of,
    status_of,
)

# One process has no more connections busy.
CONNECTIONS = 16


def connect_async(settings: RedisSettings) -> Redis:
    """Return a client for asyncio; like `server.connect`, it repeats no failed call."""
    keepalive = {} if settings.url.startswith("unix:") else {"socket_keepalive": True}
    pool = ConnectionPool.from_url(
        settings.url,
        socket_timeout=settings.timeout_s,
        socket_connect_timeout=settings.timeout_s,
        **keepalive,
        retry=Retry(NoBackoff(), 0, supported_errors=()),
        health_check_interval=0,
    )
    log_in_by_file(pool, settings.secret)
    if not settings.url.startswith("unix:"):
        # As an argument it would give way to that of the URL.
        pool.connection_class = async_connection_class(settings.url)
    return Redis.from_pool(pool)


class AsyncStatusStore(StoreCalls):
    """The statuses of one group, for a client of asyncio. Belongs to one loop.

    Args:
        redis: a client from `connect_async`, or a fake that passes the store's contract suite.
        group: the Kafka consumer group; it is part of every key.
        settings: lifetimes and `timeout_s`, in seconds.
        unheard: called with each write whose caller was cancelled, and its answer.
    """

    def __init__(
        self,
        redis: Redis,
        group: str,
        settings: RedisSettings,
        *,
        unheard: Callable[[StatusWrite, WriteAnswer], None] = lambda write, answer: None,
    ) -> None:
        super().__init__(group, settings)
        self.redis = redis
        self._timeout_s = settings.timeout_s
        self._turns = asyncio.Semaphore(CONNECTIONS)
        self._is_closed = False
        # One limit to begin, and one to be answered.
        limit_s = 2 * settings.timeout_s

        def tell(items: Sequence[tuple[StatusWrite, int]], answers: list[WriteAnswer]) -> None:
            for (write, _), answer in zip(items, answers, strict=True):
                unheard(write, answer)

        self._writing = CoalescedCalls(
            self._write_with_looks,
            size_of=lambda one: one[0].size_bytes,
            limit_s=limit_s,
            unheard=tell,
        )
        self._reading = CoalescedCalls(self._read_many, size_of=len, limit_s=limit_s)

    async def write(
        self, writes: Sequence[StatusWrite], *, look_at: int | None = None
    ) -> list[Refused | None]:
        """Write a batch of statuses; see `StatusStore.write`.

        The next check may be that of other writers at the same moment, if that is sooner.

        Raises:
            RedisRefused: one of the writes is at fault.
            RedisUnavailable: the write may or may not have been done; repeating is harmless.
        """
        return refusals_of(await self.replace(writes, look_at=look_at))

    async def replace(
        self, writes: Sequence[StatusWrite], *, look_at: int | None = None
    ) -> list[WriteAnswer]:
        """Write a batch of statuses, and return those it replaced; see `StatusStore.replace`.

        Raises:
            RedisRefused, RedisUnavailable: as for `write`.
        """
        if not writes:
            return []
        if look_at is None:
            return await self._write(writes, look_at=None)
        return await self._writing([(write, look_at) for write in writes])

    async def written(self) -> None:
        """Return when the writes under way have ended, with or without an error."""
        await self._writing.settled()

    async def _write_with_looks(
        self, writes: Sequence[tuple[StatusWrite, int]]
    ) -> list[WriteAnswer]:
        soonest = min(look_at for _, look_at in writes)
        return await self._write([write for write, _ in writes], look_at=soonest)

    async def _write(
        self, writes: Sequence[StatusWrite], *, look_at: int | None
    ) -> list[WriteAnswer]:
        async with self._turn():
            pipe = self.redis.pipeline(transaction=False)
            self.fill_write(pipe, writes, look_at=look_at)
            (replies,) = await self._execute(pipe)
            if UNPLACED in replies:
                with guarded(reached=True):
                    await self._place(writes, replies)
        return [decode_answer(reply) for reply in replies]

    async def _place(self, writes: Sequence[StatusWrite], replies: Sequence[bytes | int]) -> None:
        """Write the coordinates of records that Redis lacks; rare, so a trip of its own."""
        keys, words = self.unplaced(writes, replies)
        if keys:
            await cast("Any", self.redis.eval(PLACE, len(keys), *keys, *words))

    async def _execute(self, pipe: Any) -> list[Any]:
        commands = list(pipe.command_stack)
        try:
            return replies_of(await pipe.execute(raise_on_error=False))
        except NoScriptError:
            # A restarted Redis has forgotten the script.
            await self.redis.script_load(SCRIPT)
            pipe.command_stack = commands
            return replies_of(await pipe.execute(raise_on_error=False))

    async def read(self, request_id: str) -> Status:
        """Return the status of one request; UNKNOWN when there is none.

        Raises:
            RedisUnavailable: Redis did not answer.
        """
        return (await self.read_many([request_id]))[0]

    async def read_many(self, request_ids: Sequence[str]) -> list[Status]:
        """Return the statuses in the order of the ids, LOST derived from the heartbeats.

        Raises:
            RedisUnavailable: Redis did not answer.
        """
        found: list[Status] = []
        # In parts: each has a time limit of its own, however many there are.
        for at in range(0, len(request_ids), GROUP):
            found += await self._reading(request_ids[at : at + GROUP])
        return found

    async def _read_many(self, request_ids: Sequence[str]) -> list[Status]:
        async with self._turn():
            pipe = self.redis.pipeline(transaction=False)
            self.fill_reads(pipe, request_ids)
            found = replies_of(await pipe.execute(raise_on_error=False))
            hashes = [decode_hash(one) for one in found]
            alive = await self._alive(holders_of(hashes))
        return [status_of(one, told, alive) for one, told in zip(request_ids, hashes, strict=True)]

    async def _alive(self, worker_ids: Iterable[str]) -> set[str]:
        ids = list(worker_ids)
        if not ids:
            return set()
        pipe = self.redis.pipeline(transaction=False)
        self.fill_heartbeats(pipe, ids)
        found = replies_of(await pipe.execute(raise_on_error=False))
        return {worker_id for worker_id, is_there in zip(ids, found, strict=True) if is_there}

    async def kept_payload(self, request_id: str) -> StoredPayload | None:
        """Return the payload for a resend; None when none of ours was stored, or it is gone.

        Raises:
            RedisUnavailable: Redis did not answer.
        """
        async with self._turn():
            raw = cast("bytes | None", await self.redis.get(self.payload_key(request_id)))
        return StoredPayload.read(raw)

    async def forget(
        self,
        request_id: str,
        *,
        attempt: int,
        payload_sha256: str,
        deadline_at: int | None,
        replaced: Replaced | None = None,
    ) -> bool:
        """Take back the status of one sending; see `StatusStore.forget`.

        Raises:
            RedisUnavailable: the trace may still be there.
        """
        keys, facts = self.forgetting(
            request_id,
            attempt=attempt,
            payload_sha256=payload_sha256,
            deadline_at=deadline_at,
            replaced=replaced,
        )
        async with self._turn():
            return bool(await cast("Any", self.redis.eval(FORGET, len(keys), *keys, *facts)))

    async def memory(self, request_id: str | None) -> RedisMemory:
        """Return how far back Redis remembers; see `StatusStore.memory`.

        Raises:
            RedisUnavailable: Redis did not answer.
        """
        keys = self.remembering(request_id)
        async with self._turn():
            return decode_look(await cast("Any", self.redis.eval(LOOK, len(keys), *keys)))

    async def aclose(self) -> None:
        """Close the connections; later calls get none."""
        self._is_closed = True
        await self._writing.settled()
        await self._reading.settled()
        await self.redis.aclose()

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._turns.acquire()
        except TimeoutError:
            said = f"Redis: no connection was free for {self._timeout_s:g} s"
            raise RedisUnavailable(said, never_reached=True) from None
        try:
            if self._is_closed:
                raise RedisUnavailable("Redis: the client is closed", never_reached=True)
            with guarded():
                yield
        finally:
            self._turns.release()
