"""Waiting by event: at once while Redis is there, and again when it is back."""

import threading
import time
from collections.abc import Iterator

import pytest

from feedback.redis import events
from feedback.redis.events import ChangeWatch, EventListener
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import RedisSection
from feedback.status import FINAL, State
from tests.eventually import HANG_S, eventually
from tests.feedback.samples import a_write
from tests.feedback.slow_line import slow_line
from tests.stack.restartable import Restartable
from tests.standstill import standing_still

LONG_S = HANG_S
# Well under the polling interval of a client, a second.
AT_ONCE_S = 0.5


def store_at(url: str) -> StatusStore:
    settings = RedisSection(url=url, timeout_s=5)
    return StatusStore(connect(settings), "group", settings)


@pytest.fixture
def shared(redis_url: str, group: str) -> StatusStore:
    settings = RedisSection(url=redis_url)
    return StatusStore(connect(settings), group, settings)


@pytest.fixture(autouse=True)
def confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let watches begin confirmed, however long that takes: what comes late wakes them as well."""
    monkeypatch.setattr(events, "CONFIRMED_S", HANG_S)


@pytest.fixture
def listener(shared: StatusStore) -> Iterator[EventListener]:
    listener = EventListener(shared.redis, shared)
    yield listener
    listener.close()


def heard(watch: ChangeWatch, *, within_s: float = LONG_S) -> set[str]:
    """Return what changed, and check that it took less than `within_s`."""
    with standing_still() as stood:
        began_s = time.monotonic()
        changed = watch.wait(LONG_S)
        took_s = time.monotonic() - began_s
    assert took_s < within_s + stood.total_s
    return changed


def test_a_waiter_is_woken_by_the_event(shared: StatusStore, listener: EventListener) -> None:
    with listener.watch(["r"]) as watch:
        shared.write([a_write(State.SUCCEEDED)])
        assert heard(watch, within_s=AT_ONCE_S) == {"r"}


def test_a_waiter_who_already_sleeps_is_woken(shared: StatusStore, listener: EventListener) -> None:
    woken: list[set[str]] = []
    with listener.watch(["r"]) as watch:
        sleeper = threading.Thread(target=lambda: woken.append(watch.wait(LONG_S)))
        sleeper.start()
        shared.write([a_write(State.RUNNING)])
        sleeper.join(LONG_S)
        assert woken == [{"r"}]


def test_a_confirmation_that_comes_after_its_watch_has_begun_wakes_it(
    redis_url: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "CONFIRMED_S", 0.1)
    with slow_line(redis_url) as line:
        settings = RedisSection(url=line.url, timeout_s=60)
        store = StatusStore(connect(settings), group, settings)
        listener = EventListener(store.redis, store)
        try:
            with listener.watch(["before"]):
                line.delay_s = 1.0
                with listener.watch(["r"]) as watch:
                    # What was published before it, nobody has heard.
                    assert heard(watch) == {"r"}
        finally:
            line.delay_s = 0.0
            listener.close()


def test_a_wait_without_an_event_ends_in_time(listener: EventListener) -> None:
    with listener.watch(["r"]) as watch:
        assert watch.wait(0.05) == set()


def test_only_what_changed_is_told_and_only_once(
    shared: StatusStore, listener: EventListener
) -> None:
    with listener.watch(["a", "b"]) as watch:
        shared.write([a_write(State.RUNNING, "b"), a_write(State.RUNNING, "another")])
        assert heard(watch) == {"b"}
        assert watch.wait(0.05) == set()


def test_many_watches_of_one_request_are_all_woken(
    shared: StatusStore, listener: EventListener
) -> None:
    with listener.watch(["r"]) as one, listener.watch(["r"]) as two:
        shared.write([a_write(State.PENDING)])
        assert heard(one) == heard(two) == {"r"}
        with listener.watch(["r", "s"]) as three:
            shared.write([a_write(State.RUNNING)])
            assert heard(one) == heard(two) == heard(three) == {"r"}
    with listener.watch(["r"]) as again:
        shared.write([a_write(State.SUCCEEDED)])
        assert heard(again) == {"r"}


def test_a_watch_of_some_states_hears_only_those(
    shared: StatusStore, listener: EventListener
) -> None:
    with listener.watch(["r"], states=FINAL) as watch, listener.watch(["r"]) as every:
        shared.write([a_write(State.RUNNING)])
        assert heard(every) == {"r"}
        assert watch.wait(0.05) == set()
        shared.write([a_write(State.SUCCEEDED)])
        assert heard(watch) == heard(every) == {"r"}


def test_a_watch_that_is_left_does_not_end_the_others(
    shared: StatusStore, listener: EventListener
) -> None:
    with listener.watch(["r"]) as watch:
        with listener.watch(["r"]):
            pass
        shared.write([a_write(State.SUCCEEDED)])
        assert heard(watch) == {"r"}


def test_a_request_named_twice_is_watched_once(
    shared: StatusStore, listener: EventListener
) -> None:
    with listener.watch(["r", "r"]) as watch:
        shared.write([a_write(State.SUCCEEDED)])
        assert heard(watch) == {"r"}


def test_one_request_after_the_other_is_heard(shared: StatusStore, listener: EventListener) -> None:
    for number in range(200):
        with listener.watch([f"r{number}"]) as watch:
            shared.write([a_write(State.SUCCEEDED, f"r{number}")])
            assert heard(watch) == {f"r{number}"}


def test_many_threads_wait_over_one_connection(
    shared: StatusStore, listener: EventListener
) -> None:
    missed: list[str] = []

    def wait_for_each(name: str) -> None:
        for number in range(25):
            request_id = f"{name}-{number}"
            with listener.watch([request_id]) as watch:
                shared.write([a_write(State.SUCCEEDED, request_id)])
                if watch.wait(LONG_S) != {request_id}:
                    missed.append(request_id)

    threads = [threading.Thread(target=wait_for_each, args=(str(n),)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert missed == []


def test_hostile_ids_are_heard_under_their_own_names(
    shared: StatusStore, listener: EventListener
) -> None:
    for request_id in ("a}b{c", "*", "[a-z]", "|"):
        with listener.watch([request_id, "z"]) as watch:
            shared.write([a_write(State.SUCCEEDED, request_id)])
            assert heard(watch) == {request_id}


def test_waits_go_on_while_redis_is_away_and_events_come_back(server: Restartable) -> None:
    store = store_at(server.address)
    listener = EventListener(store.redis, store)
    try:
        with listener.watch(["before"]) as before:
            store.write([a_write(State.PENDING, "before")])
            assert heard(before) == {"before"}
            server.kill()
            assert before.wait(0.05) == set()
            with listener.watch(["while away"]) as away:
                server.start()
                # Nobody knows what was missed, so both look again.
                assert heard(before) == {"before"}
                assert heard(away) == {"while away"}
                store.write([a_write(State.SUCCEEDED, "while away")])
                assert heard(away, within_s=AT_ONCE_S) == {"while away"}
                store.write([a_write(State.SUCCEEDED, "before")])
                assert heard(before, within_s=AT_ONCE_S) == {"before"}
    finally:
        listener.close()


def test_a_wait_that_begins_without_redis_hears_it_when_it_comes(server: Restartable) -> None:
    server.kill()
    store = store_at(server.address)
    listener = EventListener(store.redis, store)
    try:
        with listener.watch(["r"]) as watch:
            assert watch.wait(0.05) == set()
            server.start()
            assert heard(watch) == {"r"}
            store.write([a_write(State.SUCCEEDED)])
            assert heard(watch, within_s=AT_ONCE_S) == {"r"}
    finally:
        listener.close()


def test_a_dropped_connection_is_replaced(server: Restartable) -> None:
    store = store_at(server.address)
    listener = EventListener(store.redis, store)
    try:
        with listener.watch(["r"]) as watch:
            store.redis.client_kill_filter(_type="pubsub")
            assert heard(watch) == {"r"}
            store.write([a_write(State.SUCCEEDED)])
            assert heard(watch, within_s=AT_ONCE_S) == {"r"}
    finally:
        listener.close()


def test_closing_gives_the_connection_back(shared: StatusStore) -> None:
    listener = EventListener(shared.redis, shared)
    with listener.watch(["r"]):
        pass
    listener.close()
    channels = f"{shared.prefix}*"
    eventually(lambda: shared.redis.pubsub_channels(channels) == [], timeout_s=LONG_S)
    EventListener(shared.redis, shared).close()
