"""`MemoryClient`: what the tests of users say of their front-ends."""

import asyncio
from collections.abc import Iterator
from uuid import uuid4

import httpx
import pytest

from consumer.handlers.registry import DECLARED
from onceward import (
    InvalidMessage,
    NotSent,
    PayloadMismatch,
    Request,
    SendUnknown,
    State,
    Submission,
    WaitTimeout,
    handler,
)
from onceward.testing import MemoryAsyncClient, MemoryClient, StatusRefused
from tests.producer_client import fastapi_example

pytestmark = pytest.mark.usefixtures("no_handler_stays")


@pytest.fixture
def client() -> Iterator[MemoryClient]:
    with MemoryClient() as client:
        yield client


@pytest.mark.parametrize(
    "state", [one for one in State if one not in (State.UNKNOWN, State.PENDING)]
)
def test_a_request_is_as_the_test_says(client: MemoryClient, state: State) -> None:
    handle = client.send({"amount": 5}, topic="payments", request_id="a")
    assert handle.status().state is State.PENDING
    told = client.tell("a", state, code="SOME", message="told so")
    assert (told.state, told.code, told.message) == (state, "SOME", "told so")
    assert client.status("a") == told


def test_a_wait_returns_an_end_and_never_waits_for_one(client: MemoryClient) -> None:
    handle = client.send({"amount": 5}, topic="payments", request_id="a")
    with pytest.raises(WaitTimeout, match="PENDING"):
        handle.wait()
    client.tell("a", State.RUNNING)
    client.tell("a", State.RETRYING)
    client.tell("a", State.RUNNING)
    client.tell("a", State.SUCCEEDED, result={"receipt": 1})
    assert handle.wait().result == {"receipt": 1}
    assert [one.state for one in client.wait_many(["a", "a"])] == [State.SUCCEEDED]


def test_a_status_that_no_worker_would_tell_is_refused(client: MemoryClient) -> None:
    client.send({"amount": 5}, topic="payments", request_id="a")
    client.tell("a", State.SUCCEEDED)
    with pytest.raises(StatusRefused, match="is SUCCEEDED: it cannot become RUNNING"):
        client.tell("a", State.RUNNING)
    with pytest.raises(StatusRefused, match="b was not sent"):
        client.tell("b", State.RUNNING)


def test_the_rules_of_sending_are_the_clients_own(client: MemoryClient) -> None:
    first = client.send({"amount": 5}, topic="payments", request_id="a")
    with pytest.raises(PayloadMismatch):
        client.send({"amount": 6}, topic="payments", request_id="a")
    with pytest.raises(InvalidMessage):
        client.send({"amount": 6}, topic="pay ments")
    client.tell("a", State.FAILED, code="BANK_BUSY", resend=True)
    again = client.send({"amount": 5}, topic="payments", request_id="a")
    assert (first.attempt, again.attempt) == (1, 2)
    client.tell("a", State.SUCCEEDED)
    assert again.wait().generation == 2


def test_a_send_fails_as_the_test_says_and_leaves_what_such_a_failure_leaves(
    client: MemoryClient,
) -> None:
    client.fail_next_send(NotSent, reason="no broker")
    client.fail_next_send(SendUnknown)
    with pytest.raises(NotSent, match="no broker"):
        client.send({"amount": 5}, topic="payments", request_id="a")
    assert client.status("a").state is State.UNKNOWN
    with pytest.raises(SendUnknown):
        client.send({"amount": 5}, topic="payments", request_id="a")
    assert client.status("a").state is State.PENDING
    client.send({"amount": 5}, topic="payments", request_id="a")


def test_given_handlers_run_what_is_sent_and_die_where_their_bench_says() -> None:
    @handler(topic=f"t-{uuid4().hex}")
    def charge(request: Request) -> int:
        return int(request.json()["amount"])

    topic = DECLARED.handlers[-1].topic
    with MemoryClient(handlers=[charge]) as client:
        handle = client.send({"amount": 5}, topic=topic, request_id="a")
        assert handle.status().state is State.PENDING
        assert handle.wait().result == 5
        client.bench(charge).die_before_effect()
        assert client.send({"amount": 5}, topic=topic).wait().state is State.IN_DOUBT
        client.fail_next_send(SendUnknown, arrives=True)
        with pytest.raises(SendUnknown):
            client.send({"amount": 6}, topic=topic, request_id="b")
        assert client.wait("b").result == 6


def test_what_is_lost_is_sent_again_by_a_wait_and_not_where_it_only_watches() -> None:
    @handler(topic=f"t-{uuid4().hex}")
    def charge(request: Request) -> int:
        return request.attempt

    topic = DECLARED.handlers[-1].topic
    with MemoryClient(handlers=[charge]) as client:
        client.fail_next_send(SendUnknown)
        with pytest.raises(SendUnknown):
            client.send({"amount": 5}, topic=topic, request_id="a")
        client.tell("a", State.LOST)
        with pytest.raises(WaitTimeout, match="LOST"):
            client.wait("a", resend=False)
        assert client.wait("a").result == 2


def test_a_front_end_on_asyncio_is_tested_without_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    client = MemoryAsyncClient()
    monkeypatch.setattr(fastapi_example, "AsyncClient", lambda settings: client)
    payment, headers = {"card": "4", "amount": 5}, {"Idempotency-Key": "order-7"}
    app = fastapi_example.app

    async def browse() -> None:
        transport = httpx.ASGITransport(app)
        async with (
            fastapi_example.lifespan(app),
            httpx.AsyncClient(transport=transport, base_url="http://shop") as browser,
        ):

            async def pay(amount: int) -> int:
                body = {**payment, "amount": amount}
                return (await browser.post("/payments", json=body, headers=headers)).status_code

            client.memory.fail_next_send(NotSent)
            assert await pay(5) == 503
            assert (await browser.get("/payments/order-7")).status_code == 404
            assert await pay(5) == 202
            assert (await browser.get("/payments/order-7")).json()["state"] == "PENDING"
            client.memory.tell("order-7", State.SUCCEEDED, result={"receipt": 1})
            assert (await browser.get("/payments/order-7")).json()["result"] == {"receipt": 1}
            assert await pay(6) == 409

    asyncio.run(browse())


def test_given_handlers_run_for_a_client_on_asyncio_too() -> None:
    @handler(topic=f"t-{uuid4().hex}")
    async def charge(request: Request) -> int:
        return int(request.json()["amount"])

    topic = DECLARED.handlers[-1].topic

    async def shop() -> list[object]:
        async with MemoryAsyncClient(handlers=[charge]) as client:
            first = await client.send({"amount": 5}, topic=topic, request_id="a")
            assert (await first.status()).state is State.PENDING
            ended = [await first.wait()]
            sent = [one async for one in client.send_many([Submission({"amount": 6}, topic=topic)])]
            ended += [one async for one in client.wait_many([sent[0].request_id])]
            return [one.result for one in ended]

    assert asyncio.run(shop()) == [5, 6]
