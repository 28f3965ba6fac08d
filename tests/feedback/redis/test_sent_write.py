"""Statuses that are sent, and whose answers are read later: by a real Redis and by the fake."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import Any

import pytest

from feedback.errors import RedisUnavailable
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import RedisSection
from feedback.status import RefusalReason, State
from feedback.statuses import Origin
from tests.eventually import eventually
from tests.feedback.samples import a_write
from tests.paused import paused
from tests.stack.restartable import Restartable

ORIGIN = Origin("payments", 3, 17, 1_700_000_000_000)


def test_the_answers_are_those_of_a_write(store: StatusStore) -> None:
    store.write([a_write(State.SUCCEEDED, "b")])
    writes = [a_write(State.ACCEPTED, "a"), a_write(State.ACCEPTED, "b")]
    taken, refused = store.send(writes, look_at=7).answers()
    assert taken is None
    assert refused is not None
    assert refused.reason is not RefusalReason.PAYLOAD
    assert store.read("b").state is State.SUCCEEDED
    assert store.redis.zscore(store.deadlines_key, "a") == 7


def test_the_coordinates_that_redis_lacks_are_written(store: StatusStore) -> None:
    assert store.send([a_write(State.SUCCEEDED, "a", origin=ORIGIN)]).answers() == [None]
    assert store.read("a").offset == ORIGIN.offset


def test_a_redis_that_has_forgotten_the_script_gets_it_again(store: StatusStore) -> None:
    store.redis.script_flush()
    assert store.send([a_write(State.ACCEPTED, "a")]).answers() == [None]
    assert store.read("a").state is State.LOST  # its worker has no heartbeat


def test_what_was_abandoned_answers_nobody_else(store: StatusStore) -> None:
    store.write([a_write(State.PENDING, "c")])  # the script is known
    store.send([a_write(State.PENDING, "a")]).abandon()
    assert store.write([a_write(State.PENDING, "b")]) == [None]
    assert eventually(lambda: store.read("a").state is State.PENDING)


@pytest.mark.parametrize("ends", ["answers", "abandon"])
def test_the_connection_goes_back_to_its_pool(redis_url: str, group: str, ends: str) -> None:
    settings = RedisSection(url=redis_url)
    store = StatusStore(connect(settings), group, settings)
    pool: Any = store.redis.connection_pool
    free = len(pool.pool.queue)
    for number in range(3):
        getattr(store.send([a_write(State.PENDING, f"r{number}")]), ends)()
    assert len(pool.pool.queue) == free
    store.close()


def test_a_redis_that_dies_between_says_so(server: Restartable, group: str) -> None:
    settings = RedisSection(url=server.address)
    store = StatusStore(connect(settings), group, settings)
    store.write([a_write(State.PENDING, "a")])
    sent = store.send([a_write(State.ACCEPTED, "a")])
    server.kill()
    with suppress(RedisUnavailable):
        sent.answers()  # it may have arrived before
    with pytest.raises(RedisUnavailable):
        store.send([a_write(State.ACCEPTED, "a")]).answers()
    store.close()


def test_redis_gets_what_was_sent_by_a_process_that_died_at_once(
    redis_url: str, group: str
) -> None:
    settings = RedisSection(url=redis_url)
    store = StatusStore(connect(settings), group, settings)
    store.write([a_write(State.PENDING, "b")])  # the script is known
    child = os.fork()
    if child == 0:
        try:
            StatusStore(connect(settings), group, settings).send([a_write(State.PENDING, "a")])
        finally:
            # However it went: this process does not go on as a second pytest.
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert eventually(lambda: store.read("a").state is State.PENDING)
    store.close()


def test_nobody_waits_for_a_redis_that_stands_still_before_the_answers(
    server: Restartable, group: str
) -> None:
    settings = RedisSection(url=server.address, timeout_s=0.3)
    store = StatusStore(connect(settings), group, settings)
    store.write([a_write(State.PENDING, "a")])
    with paused(server.pid):
        sent = store.send([a_write(State.ACCEPTED, "a")])
        with pytest.raises(RedisUnavailable):
            sent.answers()
    store.close()
