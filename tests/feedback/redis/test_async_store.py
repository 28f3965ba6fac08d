"""The store for asyncio, on a server and on the fake: what it tells is what the other one reads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
from fakeredis import FakeAsyncRedis, FakeServer
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from feedback.clock import epoch_ms
from feedback.errors import RedisUnavailable
from feedback.records.stored_payload import StoredPayload
from feedback.redis import async_events
from feedback.redis.async_events import AsyncEventListener
from feedback.redis.async_store import AsyncStatusStore, connect_async
from feedback.redis.store import StatusStore
from feedback.settings.settings import RedisSection
from feedback.status import RefusalReason, State
from tests.eventually import HANG_S
from tests.feedback.samples import SHA, a_write
from tests.stack.restartable import Restartable

T = TypeVar("T")
Run = Callable[[Callable[[AsyncStatusStore], Awaitable[T]]], T]


@pytest.fixture
def run(request: pytest.FixtureRequest, redis: Redis, group: str) -> Run[Any]:
    """Return a function that gives an asynchronous store of the same server to another."""

    def connected() -> AsyncRedis:
        server = redis.connection_pool.connection_kwargs.get("server")
        if isinstance(server, FakeServer):
            return FakeAsyncRedis(server=server)
        return connect_async(RedisSection(url=request.getfixturevalue("redis_url")))

    def run(act: Callable[[AsyncStatusStore], Awaitable[T]]) -> T:
        async def main() -> T:
            own = AsyncStatusStore(connected(), group, RedisSection())
            try:
                return await act(own)
            finally:
                await own.aclose()

        return asyncio.run(main())

    return run


def test_what_it_tells_the_other_reads_and_the_other_way_round(
    run: Run[Any], store: StatusStore
) -> None:
    payload = StoredPayload("t", b"k", b"v", (("h", b"\xff"),))
    write = a_write(State.PENDING)._replace(payload=payload)
    look_at = epoch_ms() + 1000
    assert run(lambda own: own.write([write], look_at=look_at)) == [None]
    assert store.read("r").state is State.PENDING
    assert store.kept_payload("r") == payload
    assert store.redis.zscore(store.deadlines_key, "r") == look_at
    assert run(lambda own: own.kept_payload("r")) == payload
    assert store.write([a_write(State.RUNNING)]) == [None]
    assert run(lambda own: own.read("r")) == store.read("r")
    assert run(lambda own: own.read("nobody")).state is State.UNKNOWN


def test_the_time_of_a_status_is_the_servers_whatever_its_writers_clock_says(
    run: Run[Any], store: StatusStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write([a_write(State.PENDING)])
    before = store.read("r").updated_at or 0
    monkeypatch.setattr(
        "feedback.clock.time", SimpleNamespace(time_ns=lambda: 1, monotonic=time.monotonic)
    )
    assert run(lambda own: own.write([a_write(State.RUNNING)])) == [None]
    assert 0 < before <= (store.read("r").updated_at or 0)


def test_the_rule_refuses_it_as_it_refuses_the_other(run: Run[Any], store: StatusStore) -> None:
    store.write([a_write(State.SUCCEEDED)])
    (refused,) = run(lambda own: own.write([a_write(State.PENDING)], look_at=5))
    assert refused.state is State.SUCCEEDED
    # What has ended does not stay in the resender's set for that.
    assert store.redis.zscore(store.deadlines_key, "r") is None
    other = a_write(State.PENDING)._replace(payload_sha256="0" * 64)
    (refused,) = run(lambda own: own.write([other]))
    assert refused.reason is RefusalReason.PAYLOAD
    assert run(lambda own: own.write([])) == []


def test_lost_is_seen_without_the_heartbeat_of_its_worker(
    run: Run[Any], store: StatusStore
) -> None:
    store.write([a_write(State.PENDING)])
    store.write([a_write(State.ACCEPTED)._replace(fields={"worker": "w"})])
    assert run(lambda own: own.read("r")).state is State.LOST
    store.beat("w", {})
    assert run(lambda own: own.read("r")).state is State.ACCEPTED


def test_it_forgets_only_what_its_own_sending_told(run: Run[Any], store: StatusStore) -> None:
    write = a_write(State.PENDING)._replace(fields={"deadline_at": "7"})

    def forget(attempt: int) -> bool:
        told: bool = run(
            lambda own: own.forget("r", attempt=attempt, payload_sha256=SHA, deadline_at=7)
        )
        return told

    run(lambda own: own.write([write], look_at=5))
    assert not forget(write.attempt + 1)
    assert store.read("r").state is State.PENDING
    assert forget(write.attempt)
    assert store.read("r").state is State.UNKNOWN
    assert store.redis.zscore(store.deadlines_key, "r") is None


def test_a_redis_that_forgot_the_script_is_told_it_again(run: Run[Any], store: StatusStore) -> None:
    run(lambda own: own.write([a_write(State.PENDING, "a")]))
    store.redis.script_flush()
    assert run(lambda own: own.write([a_write(State.PENDING, "b")])) == [None]
    assert store.read("b").state is State.PENDING


def test_closed_it_says_so_and_reaches_nobody(run: Run[Any]) -> None:
    async def ask_closed(own: AsyncStatusStore) -> None:
        await own.aclose()
        with pytest.raises(RedisUnavailable, match="closed") as caught:
            await own.read("r")
        assert caught.value.never_reached

    run(ask_closed)


def test_waits_hear_the_events_again_after_their_connection_was_dropped(
    server: Restartable, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is confirmed late wakes as well.
    monkeypatch.setattr(async_events, "CONFIRMED_S", HANG_S)
    # Its own, because every listener of the server is dropped.
    settings = RedisSection(url=server.address)

    async def main() -> None:
        redis = connect_async(settings)
        own = AsyncStatusStore(redis, group, settings)
        listener = AsyncEventListener(redis, own)
        try:
            async with listener.watch(["r"]) as watch:
                await own.write([a_write(State.PENDING)])
                assert await watch.wait(60) == {"r"}
                await redis.client_kill_filter(_type="pubsub")
                # Nobody knows what was missed, so everybody looks again.
                assert await watch.wait(60) == {"r"}
                await own.write([a_write(State.RUNNING)])
                assert await watch.wait(60) == {"r"}
                assert await watch.wait(0.05) == set()
                async with listener.watch(["r"]) as other:
                    await own.write([a_write(State.SUCCEEDED)])
                    assert await watch.wait(60) == await other.wait(60) == {"r"}
        finally:
            await listener.aclose()
            await own.aclose()

    asyncio.run(main())
