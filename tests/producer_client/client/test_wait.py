"""Waiting for the end: woken by the event, by polling alone, and through an absent Redis."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis

from feedback.clock import monotonic_s
from feedback.errors import RedisUnavailable, WaitTimeout
from feedback.status import State
from onceward.servers.keeper import Keeper
from onceward.servers.launch import launch
from onceward.servers.redis import Redis
from producer_client import Client
from tests.eventually import eventually
from tests.producer_client.acting import Worker
from tests.producer_client.conftest import MakeClient
from tests.rounds import in_time

AtOnce = Callable[..., Future[Any]]
LIMIT_S = 60


def _is_watched(worker: Worker, request_id: str) -> Callable[[], bool]:
    channel = worker.store.events_channel(request_id)

    def is_watched() -> bool:
        ((_, listeners),) = worker.store.redis.pubsub_numsub(channel)
        return bool(listeners)

    return is_watched


def test_the_event_of_the_end_wakes_the_wait_long_before_the_next_poll(
    make_client: MakeClient, worker: Worker, at_once: AtOnce
) -> None:
    client = make_client(poll_interval_s=3600)
    handle = client.send(b"v")
    waiting = at_once(handle.wait, 3600)
    eventually(_is_watched(worker, handle.request_id), timeout_s=LIMIT_S)
    worker.tell(handle.request_id, State.RUNNING)
    worker.tell(handle.request_id, State.SUCCEEDED, result='{"paid":5}')
    found = waiting.result(timeout=LIMIT_S)
    assert (found.state, found.result) == (State.SUCCEEDED, {"paid": 5})


def test_polling_alone_finds_an_end_that_nobody_heard_of(
    make_client: MakeClient, worker: Worker, at_once: AtOnce
) -> None:
    client = make_client(poll_interval_s=0.2)
    handle = client.send(b"v")
    waiting = at_once(handle.wait, 3600)  # its last look is not what finds it
    eventually(_is_watched(worker, handle.request_id), timeout_s=LIMIT_S)
    worker.tell(handle.request_id, State.FAILED, is_heard=False, code="NO_MONEY")
    assert waiting.result(timeout=LIMIT_S).code == "NO_MONEY"


def test_an_end_that_was_told_before_the_wait_is_returned_at_once(
    make_client: MakeClient, worker: Worker
) -> None:
    client = make_client(poll_interval_s=30)
    handle = client.send(b"v")
    worker.tell(handle.request_id, State.IN_DOUBT)
    assert handle.wait(timeout_s=0).state is State.IN_DOUBT


def test_a_wait_in_vain_ends_in_time_with_the_last_state(client: Client, worker: Worker) -> None:
    handle = client.send(b"v")
    worker.tell(handle.request_id, State.RUNNING)

    def wait() -> None:
        began_s = monotonic_s()
        with pytest.raises(WaitTimeout) as caught:
            handle.wait(timeout_s=0.3)
        assert monotonic_s() - began_s >= 0.3
        assert (caught.value.request_id, caught.value.state) == (handle.request_id, State.RUNNING)
        assert caught.value.waited_s >= 0.3

    in_time(wait, limit_s=1.5, noise=(RedisUnavailable,))


def test_many_waits_share_one_listener(
    make_client: MakeClient, worker: Worker, at_once: AtOnce
) -> None:
    client = make_client(poll_interval_s=30)
    handles = [client.send(b"v") for _ in range(12)]
    waits = [at_once(handle.wait, 20) for handle in handles]
    for handle in handles:
        eventually(_is_watched(worker, handle.request_id), timeout_s=LIMIT_S)
    for number, handle in enumerate(handles):
        worker.tell(handle.request_id, State.SUCCEEDED, result=str(number))
    assert [wait.result(timeout=LIMIT_S).result for wait in waits] == list(range(12))


def test_ends_of_many_are_yielded_as_they_come(
    make_client: MakeClient, worker: Worker, at_once: AtOnce
) -> None:
    client = make_client(poll_interval_s=3600)
    ids = [client.send(b"v").request_id for _ in range(3)]
    worker.tell(ids[2], State.SKIPPED, by="other")
    ends = client.wait_many([*ids, ids[0]], timeout_s=3600)
    assert next(ends).request_id == ids[2]
    second = at_once(next, ends)
    worker.tell(ids[1], State.RUNNING)
    worker.tell(ids[1], State.SUCCEEDED)
    assert second.result(timeout=LIMIT_S).request_id == ids[1]
    worker.tell(ids[0], State.EXPIRED)
    rest = at_once(list, ends).result(timeout=LIMIT_S)
    assert [(one.request_id, one.state) for one in rest] == [(ids[0], State.EXPIRED)]


def test_waiting_for_many_polls_as_well_and_names_one_that_did_not_end(
    make_client: MakeClient, worker: Worker
) -> None:
    client = make_client(poll_interval_s=0.1)
    first, second = (client.send(b"v").request_id for _ in range(2))
    worker.tell(second, State.SUCCEEDED, is_heard=False)

    def told() -> str:
        ends = client.wait_many([first, second], timeout_s=1)
        try:
            assert next(ends).request_id == second
            next(ends)
        except WaitTimeout as error:
            return str(error)
        except RedisUnavailable:
            return ""  # of a machine that stands still
        pytest.fail("it has an end")

    assert f"{first} is still PENDING" in eventually(told, timeout_s=LIMIT_S)
    assert list(client.wait_many([])) == []


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    """Yield a keeper of servers that only this test has."""
    with Keeper() as keeper:
        yield keeper


def test_a_wait_outlives_a_redis_that_goes_and_comes_back_empty(
    make_client: MakeClient, keeper: Keeper, at_once: AtOnce, group: str
) -> None:
    first = launch(keeper, Redis)
    client = make_client(redis={"url": first.address}, poll_interval_s=0.1)
    handle = client.send(b"v", key="k", deadline_s=60)
    waiting = at_once(handle.wait, 30)
    keeper.stop(first.pid)
    with pytest.raises(RedisUnavailable):
        client.wait("another", timeout_s=0.5)
    launch(keeper, lambda: Redis(port=urlsplit(first.address).port or 0))
    eventually(lambda: client.status(handle.request_id).state is State.PENDING, timeout_s=30)
    again = client.status(handle.request_id)
    assert (again.attempt, again.deadline_at) == (1, handle.deadline_at)
    with redis.Redis.from_url(first.address) as connection:
        worker = Worker(connection, group, client.settings.redis)
        assert worker.store.kept_payload(handle.request_id) == handle.payload
        worker.tell(handle.request_id, State.SUCCEEDED, result="1")
    assert waiting.result(timeout=LIMIT_S).result == 1
