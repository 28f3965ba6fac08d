"""Waiting for many requests: which are listened for, and that none is forgotten."""

import random
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedback.status import State
from producer_client.client.waiter import SENTINELS, choose_sentinels, up_to_last
from tests.producer_client.acting import Worker
from tests.producer_client.conftest import MakeClient

AtOnce = Callable[..., Future[Any]]


@given(st.integers(0, 500), st.integers(1, 40))
def test_sentinels_are_few_in_order_and_end_with_the_last(count: int, most: int) -> None:
    ids = [str(number) for number in range(count)]
    chosen = choose_sentinels(ids, most)
    assert len(chosen) == min(count, most) == len(set(chosen))
    assert chosen == sorted(chosen, key=int)
    assert chosen[-1:] == ids[-1:]


def test_the_look_goes_up_to_the_last_that_ended() -> None:
    ids = ["a", "b", "c", "d"]
    assert list(up_to_last(ids, {"c", "a"})) == ["a", "b", "c"]
    assert list(up_to_last(ids, {"x"})) == []
    assert list(up_to_last([], {"x"})) == []


@pytest.mark.parametrize("is_heard", [True, False])
def test_all_of_many_are_told_whatever_the_order_they_end_in(
    make_client: MakeClient, worker: Worker, at_once: AtOnce, is_heard: bool
) -> None:
    client = make_client(poll_interval_s=30)
    ids = [client.send(b"v").request_id for _ in range(3 * SENTINELS)]
    ending = random.Random(7).sample(ids, len(ids))
    for request_id in ending[:10]:
        worker.tell(request_id, State.SUCCEEDED, is_heard=is_heard)
    told = at_once(list, client.wait_many(ids, timeout_s=30))
    for request_id in ending[10:]:
        worker.tell(request_id, State.SUCCEEDED, is_heard=is_heard)
    assert sorted(status.request_id for status in told.result(timeout=60)) == sorted(ids)
