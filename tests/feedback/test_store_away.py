"""What the store says when Redis is not there, is gone in the middle, or does not answer."""

import pickle
import socket
import time
from collections.abc import Callable, Iterator

import pytest
from redis import Redis

from feedback.errors import ExitCode, RedisUnavailable
from feedback.redis_server import connect
from feedback.settings import RedisSection
from feedback.status import State
from feedback.store import StatusStore
from tests.feedback.breaking_line import breaking_line
from tests.feedback.own_redis import OwnRedis
from tests.feedback.samples import PAYLOAD, a_write
from tests.stack.ports import HOST, free_port

TIMEOUT_S = 0.3
CALLS: list[Callable[[StatusStore], object]] = [
    lambda store: store.write([a_write(State.PENDING)], look_at=1),
    lambda store: store.read("r"),
    lambda store: store.kept_payload("r"),
    lambda store: store.forget("r"),
    lambda store: store.beat("w", {}),
    lambda store: store.end_heartbeat("w"),
    lambda store: store.agree_on_journal("j"),
    lambda store: store.server_version(),
]
NAMES = ["write", "read", "kept", "forget", "beat", "end_heartbeat", "journal", "version"]


def store_at(url: str, timeout_s: float = TIMEOUT_S) -> StatusStore:
    settings = RedisSection(url=url, timeout_s=timeout_s)
    return StatusStore(connect(settings), "group", settings)


@pytest.fixture
def silent_url() -> Iterator[str]:
    """Yield the URL of a port that takes connections and never says a word."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        listener.listen(16)
        yield f"redis://{HOST}:{listener.getsockname()[1]}/0"


@pytest.mark.parametrize("call", CALLS, ids=NAMES)
def test_a_refused_port_was_never_reached(call: Callable[[StatusStore], object]) -> None:
    store = store_at(f"redis://{HOST}:{free_port()}/0")
    with pytest.raises(RedisUnavailable, match="refused") as caught:
        call(store)
    assert caught.value.never_reached
    assert caught.value.exit_code is ExitCode.NOT_AVAILABLE


def test_a_socket_file_or_a_host_that_does_not_exist_was_never_reached() -> None:
    for url in ("unix:///nowhere/redis.sock", "redis://nowhere.invalid:6379/0"):
        with pytest.raises(RedisUnavailable) as caught:
            store_at(url).read("r")
        assert caught.value.never_reached


@pytest.mark.parametrize("call", CALLS, ids=NAMES)
def test_a_server_that_does_not_answer_is_given_up_in_time(
    call: Callable[[StatusStore], object], silent_url: str
) -> None:
    began_s = time.monotonic()
    with pytest.raises(RedisUnavailable) as caught:
        call(store_at(silent_url))
    assert time.monotonic() - began_s < 4 * TIMEOUT_S
    assert not caught.value.never_reached


def test_a_server_that_is_gone_over_a_write_may_have_done_it(redis_url: str, group: str) -> None:
    settings = RedisSection(url=redis_url)
    direct = StatusStore(connect(settings), group, settings)
    direct.write([a_write(State.PENDING, payload=PAYLOAD)])
    with breaking_line(redis_url, over=b"EVALSHA") as url:
        store = StatusStore(connect(RedisSection(url=url)), group, settings)
        with pytest.raises(RedisUnavailable) as caught:
            store.write([a_write(State.ACCEPTED)])
        assert not caught.value.never_reached
        with pytest.raises(RedisUnavailable, match="refused"):
            store.read("r")
    assert direct.read("r").state is State.LOST


def test_a_restarted_server_is_used_at_once_and_told_the_script_again(server: OwnRedis) -> None:
    store = store_at(server.url, timeout_s=5)
    assert store.write([a_write(State.PENDING)]) == [None]
    server.kill()
    with pytest.raises(RedisUnavailable):
        store.read("r")
    server.start()
    assert store.read("r").state is State.UNKNOWN
    assert store.write([a_write(State.PENDING)]) == [None]


def test_an_idle_connection_that_was_dropped_is_replaced_unseen(server: OwnRedis) -> None:
    store = store_at(server.url, timeout_s=5)
    store.write([a_write(State.PENDING)])
    with Redis.from_url(server.url) as admin:
        admin.client_kill_filter(_type="normal", skipme=True)
    assert store.write([a_write(State.ACCEPTED)]) == [None]


def test_a_wrong_password_was_never_reached_and_is_not_repeated(server: OwnRedis) -> None:
    with Redis.from_url(server.url) as admin:
        admin.config_set("requirepass", "right")
    wrong = server.url.replace("redis://", "redis://:wr0ng@")
    with pytest.raises(RedisUnavailable) as caught:
        store_at(wrong).read("r")
    assert caught.value.never_reached
    assert "wr0ng" not in str(caught.value)


def test_a_full_server_takes_nothing_of_a_request(server: OwnRedis) -> None:
    store = store_at(server.url, timeout_s=5)
    with Redis.from_url(server.url) as admin:
        store.write([a_write(State.PENDING, "before")])
        admin.config_set("maxmemory-policy", "noeviction")
        admin.config_set("maxmemory", 1)
        with pytest.raises(RedisUnavailable, match="OutOfMemory") as caught:
            store.write([a_write(State.PENDING, payload=PAYLOAD)], look_at=1)
        assert caught.value.never_reached
        assert admin.dbsize() == 1


def test_the_version_of_the_server_is_told(server: OwnRedis) -> None:
    major, *_ = store_at(server.url, timeout_s=5).server_version().split(".")
    assert int(major) >= 6


def test_the_error_survives_a_process_boundary() -> None:
    error = pickle.loads(pickle.dumps(RedisUnavailable("gone", never_reached=True)))
    assert (str(error), error.never_reached) == ("gone", True)
