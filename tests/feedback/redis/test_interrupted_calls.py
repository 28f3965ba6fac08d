"""Calls to Redis that a signal handler interrupts, and the later ones over the same connections."""

from __future__ import annotations

import gc
import threading
import uuid
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import hiredis
import pytest
from redis import BlockingConnectionPool

from feedback.errors import RedisUnavailable
from feedback.redis.events import EventListener
from feedback.redis.server import MAX_CONNECTIONS, Packer, connect
from feedback.redis.sockets import TcpConnection
from feedback.redis.store import StatusStore
from feedback.settings.settings import RedisSection
from feedback.status import State
from feedback.statuses import StatusWrite
from tests.feedback.slow_line import slow_line
from tests.kit.interrupts import Interrupt, interrupted_everywhere


def _store(url: str) -> StatusStore:
    settings = RedisSection(url=url, timeout_s=2.0)
    return StatusStore(connect(settings), f"g{uuid.uuid4().hex}", settings)


def _raising(error: type[BaseException]) -> Callable[[], None]:
    def handler() -> None:
        raise error

    return handler


@pytest.fixture
def store(redis_url: str) -> Iterator[StatusStore]:
    """Yield a store of a group of its own."""
    made = _store(redis_url)
    yield made
    made.close()


@pytest.mark.parametrize("error", [Interrupt, TimeoutError, OSError, RuntimeError])
def test_the_answer_to_an_interrupted_call_is_not_taken_for_that_to_the_next(
    redis_url: str, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def interrupt(_: Any) -> None:
        raise error

    with slow_line(redis_url) as line:
        store = _store(line.url)
        write = StatusWrite("known", State.PENDING, attempt=1, generation=0, payload_sha256="x")
        assert store.write([write]) == [None]
        line.delay_s = 0.3
        with monkeypatch.context() as patched:
            # This is the first step after the command was sent.
            patched.setattr(TcpConnection, "_host_error", interrupt)
            with pytest.raises((error, RedisUnavailable)):
                store.read("known")
        assert store.read("nobody's").state is State.UNKNOWN
        store.close()


def _refused_and_then_late() -> None:
    try:
        raise ConnectionRefusedError
    except ConnectionRefusedError as error:
        raise TimeoutError from error


@pytest.mark.parametrize(
    "handler", [_refused_and_then_late, *map(_raising, (ConnectionRefusedError, FileNotFoundError))]
)
def test_a_call_that_was_sent_may_have_reached_redis_whatever_a_handler_raises(
    store: StatusStore, monkeypatch: pytest.MonkeyPatch, handler: Callable[[], None]
) -> None:
    send: Any = TcpConnection.send_packed_command

    def interrupted(*given: Any, **named: Any) -> None:
        send(*given, **named)
        handler()

    _require_unknown(store, monkeypatch, TcpConnection, "send_packed_command", interrupted)


@pytest.mark.parametrize("is_given_back", [False, True])
def test_a_call_whose_answer_was_read_has_reached_redis_whatever_a_handler_raises(
    store: StatusStore, monkeypatch: pytest.MonkeyPatch, is_given_back: bool
) -> None:
    release: Any = BlockingConnectionPool.release

    def interrupted(*given: Any) -> None:
        if is_given_back:
            release(*given)
        raise ConnectionRefusedError

    _require_unknown(store, monkeypatch, BlockingConnectionPool, "release", interrupted)


def _require_unknown(
    store: StatusStore,
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    name: str,
    interrupted: Callable[..., None],
) -> None:
    """Write a status with a step of redis-py interrupted: Redis has it, and nobody denies that."""
    write = StatusWrite("sent", State.PENDING, attempt=1, generation=0, payload_sha256="x")
    store.read("connects")
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, interrupted)
        with pytest.raises(RedisUnavailable) as caught:
            store.write([write])
    assert store.read("sent").state is State.PENDING
    assert not caught.value.never_reached


def test_a_connection_is_given_back_once_where_a_handler_raises_just_after_that(
    store: StatusStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    release: Any = BlockingConnectionPool.release
    pool: Any = store.redis.connection_pool
    # A full pool takes nothing twice.
    other = pool.get_connection()

    def interrupted(*given: Any) -> None:
        release(*given)
        raise Interrupt

    with monkeypatch.context() as patched:
        patched.setattr(BlockingConnectionPool, "release", interrupted)
        with pytest.raises(Interrupt) as caught:
            store.read("a")
    # What the error has kept until now is dropped.
    del caught
    gc.collect()
    given_back = [one for one in pool.pool.queue if one is not None]
    pool.release(other)
    assert len(given_back) == 1


def test_an_interrupted_call_holds_up_no_later_one_of_another_thread(store: StatusStore) -> None:
    store.read("a")
    ended: list[State] = []
    # Each may cost a connection of the pool.
    places = islice(interrupted_everywhere(lambda: store.read("a"), every=9), MAX_CONNECTIONS - 2)
    for place in places:
        thread = threading.Thread(target=lambda: ended.append(store.read("b").state), daemon=True)
        thread.start()
        thread.join(5.0)
        assert not thread.is_alive(), place
    assert ended
    assert set(ended) == {State.UNKNOWN}


def test_an_interrupted_wait_holds_up_no_other_one(store: StatusStore) -> None:
    listener = EventListener(store.redis, store)

    def wait() -> None:
        with listener.watch(["a"], within_s=0.05) as watch:
            watch.wait(0.001)

    wait()
    for place in interrupted_everywhere(wait, every=9):
        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        thread.join(5.0)
        assert not thread.is_alive(), place
    listener.close()


def test_no_number_is_packed_by_hiredis_which_a_signal_would_crash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packed: list[object] = []
    pack = hiredis.pack_command

    def see(arguments: tuple[Any, ...]) -> Any:
        packed.extend(arguments)
        return pack(arguments)

    monkeypatch.setattr(hiredis, "pack_command", see)
    assert Packer().pack("SET", 5, 1.5) == [b"*3\r\n$3\r\nSET\r\n$1\r\n5\r\n$3\r\n1.5\r\n"]
    assert {type(one) for one in packed} == {str}
