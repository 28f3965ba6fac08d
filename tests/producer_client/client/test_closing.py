"""Waits in progress end when their client is closed."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypedDict

import pytest

from feedback.clock import monotonic_s
from feedback.errors import NewerStatus, NotSent, SettingsError
from feedback.records.envelope import Record, decode_headers
from feedback.settings.settings import load
from producer_client import AsyncClient, Client, ClientClosed, SendResult
from producer_client.sending.send_batches import BATCH
from producer_client.submission import Submission, prepare
from tests.producer_client.acting import Worker
from tests.producer_client.conftest import MakeSettings

AtOnce = Callable[..., Future[Any]]
# Without an end they wait for ever.
LIMIT_S = 60


def test_waits_end_at_once_when_their_client_is_closed(client: Client, at_once: AtOnce) -> None:
    handle = client.send(b"v", request_id="r1")
    watching = [at_once(handle.wait), at_once(list, client.wait_many(["r1", "r2"]))]
    with client._events.watch(["r1"]):
        client.close()
    began_s = monotonic_s()
    for one in watching:
        with pytest.raises(ClientClosed):
            one.result(timeout=LIMIT_S)
    assert monotonic_s() - began_s < LIMIT_S


def test_waits_of_tasks_end_at_once_when_their_client_is_closed(
    make_settings: MakeSettings,
) -> None:
    async def main() -> None:
        client = AsyncClient(make_settings())
        handle = await client.send(b"v", request_id="r1")

        async def many() -> None:
            async for _ in client.wait_many(["r1", "r2"]):
                pass

        watching = [asyncio.create_task(handle.wait()), asyncio.create_task(many())]
        await asyncio.sleep(0)
        await client.aclose()
        async with asyncio.timeout(LIMIT_S):
            ended = await asyncio.gather(*watching, return_exceptions=True)
        assert [type(one) for one in ended] == [ClientClosed, ClientClosed]

    asyncio.run(main())


def test_a_state_of_a_newer_version_is_named(client: Client, worker: Worker) -> None:
    client.send(b"v", request_id="r1")
    worker.store.redis.hset(worker.store.request_key("r1"), "status", "TELEPORTED")
    with pytest.raises(NewerStatus, match="'TELEPORTED', which is of a newer version"):
        client.status("r1")


def test_an_option_of_redis_that_breaks_every_call_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ONCEWARD_REDIS__URL", raising=False)
    with pytest.raises(SettingsError, match="leave out decode_responses"):
        load(None, redis={"url": "redis://127.0.0.1:6379/0?decode_responses=true"})


class Order(TypedDict):
    """What a caller may have typed."""

    amount: int


def test_a_typed_dict_is_a_value() -> None:
    order: Order = {"amount": 5}
    asked = Submission(order, topic="t")
    ready = prepare(asked, default_topic=None, default_deadline_s=60, now_ms=0)
    assert ready.payload.value == b'{"amount":5}'


def test_of_many_ids_a_task_reads_no_more_than_a_part_at_a_time(
    make_settings: MakeSettings,
) -> None:
    async def main() -> list[int]:
        async with AsyncClient(make_settings()) as client:
            sizes: list[int] = []
            read_many = client.store._reading._call

            async def counted(ids: Any) -> Any:
                sizes.append(len(ids))
                return await read_many(ids)

            client.store._reading._call = counted
            found = await client.store.read_many([f"r{n}" for n in range(1_000)])
            assert [one.request_id for one in found] == [f"r{n}" for n in range(1_000)]
            return sizes

    assert max(asyncio.run(main())) <= 128


def test_a_batch_that_is_being_launched_ends_before_its_client_has_closed(
    client: Client, at_once: AtOnce, monkeypatch: pytest.MonkeyPatch, worker: Worker
) -> None:
    client.send(b"the first send connects", request_id="r1")
    has_begun = threading.Event()
    sender_is_closed = threading.Event()
    replace, close = client.store.replace, client._sender.close

    def after_the_sender(*given: Any, **named: Any) -> Any:
        has_begun.set()
        assert sender_is_closed.wait(LIMIT_S)
        return replace(*given, **named)

    def closing() -> None:
        close()
        sender_is_closed.set()

    monkeypatch.setattr(client.store, "replace", after_the_sender)
    monkeypatch.setattr(client._sender, "close", closing)
    sending = at_once(list, client.send_many(Submission(b"v") for _ in range(300)))
    assert has_begun.wait(LIMIT_S)
    client.close()
    results = sending.result(LIMIT_S)
    assert [type(one.error) for one in results] == [NotSent] * 300
    assert _told(worker) == {"r1"}
    assert not _open_connections(client)


def test_a_client_that_is_closed_while_it_sends_many_has_one_true_result_for_each(
    client: Client, at_once: AtOnce, records: Callable[[], list[Record]], worker: Worker
) -> None:
    has_begun = threading.Event()

    def told() -> list[SendResult]:
        found = []
        for one in client.send_many(Submission(b"v") for _ in range(30 * BATCH)):
            found.append(one)
            has_begun.set()
        return found

    sending = at_once(told)
    assert has_begun.wait(LIMIT_S)
    client.close()
    results = sending.result(LIMIT_S)
    assert len({one.request_id for one in results}) == 30 * BATCH
    sent = {one.request_id for one in results if one.sent}
    unsent = {one.request_id for one in results if isinstance(one.error, NotSent)}
    assert sent and unsent and len(sent) + len(unsent) == len(results)
    assert {decode_headers(one).request_id for one in records()} == sent
    assert _told(worker) == sent
    assert not _open_connections(client)


def test_tasks_that_send_many_while_their_client_closes_have_one_true_result_for_each(
    make_settings: MakeSettings, records: Callable[[], list[Record]], worker: Worker
) -> None:
    async def main() -> list[SendResult]:
        client = AsyncClient(make_settings())
        has_begun = asyncio.Event()

        async def sending() -> list[SendResult]:
            found = []
            async for one in client.send_many(Submission(b"v") for _ in range(30 * BATCH)):
                found.append(one)
                has_begun.set()
            return found

        task = asyncio.create_task(sending())
        async with asyncio.timeout(LIMIT_S):
            await has_begun.wait()
            await client.aclose()
            return await task

    results = asyncio.run(main())
    assert len({one.request_id for one in results}) == 30 * BATCH
    sent = {one.request_id for one in results if one.sent}
    assert {type(one.error) for one in results if not one.sent} == {NotSent}
    assert {decode_headers(one).request_id for one in records()} == sent
    assert _told(worker) == sent


def _open_connections(client: Client) -> list[object]:
    pool: Any = client.store.redis.connection_pool
    return [one for one in pool._connections if one._sock]


def _told(worker: Worker) -> set[str]:
    """The requests that have a status."""
    return {one.partition("{")[2].rstrip("}") for one in worker.traces() if ":request:" in one}
