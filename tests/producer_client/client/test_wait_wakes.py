"""What wakes a wait, in threads."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from feedback.redis.events import ChangeWatch
from feedback.status import State
from producer_client.client.waiter import Waiter
from tests.eventually import eventually
from tests.producer_client.acting import Worker
from tests.producer_client.conftest import MakeClient

AtOnce = Callable[..., Future[Any]]


def test_the_way_of_a_request_through_the_worker_wakes_no_wait(
    make_client: MakeClient, worker: Worker, at_once: AtOnce, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = make_client(poll_interval_s=30)
    heard: list[str | None] = []
    looks: list[State] = []
    tell, look = ChangeWatch.tell, Waiter._look

    def telling(self: ChangeWatch, ids: Any, state: str | None = None) -> None:
        heard.append(state)
        tell(self, ids, state)

    def looking(self: Waiter, *given: Any) -> Any:
        found = look(self, *given)
        looks.append(found.state if found is not None else State.UNKNOWN)
        return found

    monkeypatch.setattr(ChangeWatch, "tell", telling)
    monkeypatch.setattr(Waiter, "_look", looking)
    sent = client.send(b"v")
    ended = at_once(sent.wait, 30)
    eventually(lambda: looks, timeout_s=30)
    worker.tell(sent.request_id, State.RUNNING)
    eventually(lambda: State.RUNNING in heard, timeout_s=30)
    worker.tell(sent.request_id, State.SUCCEEDED)
    assert ended.result(timeout=60).state is State.SUCCEEDED
    assert looks == [State.PENDING, State.SUCCEEDED]
