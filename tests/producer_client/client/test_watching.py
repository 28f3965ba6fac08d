"""Watching a request that others send again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from feedback.errors import RedisUnavailable, WaitTimeout
from feedback.status import State
from feedback.statuses import Status
from producer_client.client import watching
from producer_client.client.watching import LOOK_S, watch


class Clock:
    """Stands still between the waits."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Client:
    """Sees these states, each for the time of a wait, and then the end."""

    def __init__(self, clock: Clock, seen: Iterator[State | None]) -> None:
        self.clock, self.seen = clock, seen

    def wait(self, request: str, *, timeout_s: float | None, resend: bool) -> Status:
        assert timeout_s is not None
        assert not resend
        found = next(self.seen, State.SUCCEEDED)
        if found is State.SUCCEEDED:
            return Status(request, found)
        self.clock.now_s += timeout_s
        if found is None:
            raise RedisUnavailable("away")
        raise WaitTimeout(request, found, timeout_s)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(watching, "monotonic_s", made)
    return made


def test_a_request_that_stays_lost_ends_the_watch(clock: Clock) -> None:
    client = Client(clock, iter([State.ACCEPTED, *[State.LOST] * 100]))
    with pytest.raises(WaitTimeout) as ended:
        watch(client, "id", timeout_s=None, lost_s=30 * LOOK_S)
    assert (ended.value.state, ended.value.waited_s) == (State.LOST, 32 * LOOK_S)


@pytest.mark.parametrize("between", [State.PENDING, None], ids=["sent again", "Redis away"])
def test_one_that_is_lost_for_a_while_is_watched_on(clock: Clock, between: State | None) -> None:
    seen = [*[State.LOST] * 20, between, *[State.LOST] * 20]
    found = watch(Client(clock, iter(seen)), "id", timeout_s=None, lost_s=30 * LOOK_S)
    assert found.state is State.SUCCEEDED


@pytest.mark.parametrize("state", [State.PENDING, State.LOST, None])
def test_it_ends_with_its_time(clock: Clock, state: State | None) -> None:
    client = Client(clock, iter([state] * 100))
    with pytest.raises(RedisUnavailable if state is None else WaitTimeout):
        watch(client, "id", timeout_s=5.5 * LOOK_S, lost_s=30.0)
    assert clock.now_s == pytest.approx(100.0 + 5.5 * LOOK_S)
