"""What the store says when Redis is not there, is gone in the middle, or does not answer."""

import asyncio
import pickle
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from redis import Redis
from redis._parsers.base import BaseParser

from feedback.clock import monotonic_s
from feedback.errors import ExitCode, RedisRefused, RedisUnavailable, SettingsError
from feedback.redis.async_store import AsyncStatusStore, connect_async
from feedback.redis.server import connect, guarded
from feedback.redis.split_batch import write_apart
from feedback.redis.store import StatusStore
from feedback.settings.settings import RedisSection
from feedback.status import State
from onceward.servers.keeper import ServerCommand
from onceward.servers.ports import HOST, free_port
from onceward.servers.redis import Redis as RedisServer
from tests.eventually import eventually
from tests.feedback.breaking_line import breaking_line
from tests.feedback.samples import OTHER_SHA, PAYLOAD, a_write
from tests.rounds import fastest_s, in_time
from tests.stack.restartable import Restartable, restartable

pytestmark = pytest.mark.waits

TIMEOUT_S = 0.3
CALLS: list[Callable[[StatusStore], object]] = [
    lambda store: store.write([a_write(State.PENDING)], look_at=1),
    lambda store: store.read("r"),
    lambda store: store.kept_payload("r"),
    lambda store: store.forget("r", attempt=1, payload_sha256="a", deadline_at=1),
    lambda store: store.beat("w", {}),
    lambda store: store.end_heartbeat("w"),
    lambda store: store.alive(["w"]),
    lambda store: store.heartbeats(["w"]),
    lambda store: store.agree_on_journal("j"),
    lambda store: store.memory("r"),
    lambda store: store.server_version(),
]
NAMES = [
    "write",
    "read",
    "kept",
    "forget",
    "beat",
    "end_heartbeat",
    "alive",
    "heartbeats",
    "journal",
    "memory",
    "version",
]


OPENED: list[StatusStore] = []


def store_at(url: str, timeout_s: float = TIMEOUT_S) -> StatusStore:
    settings = RedisSection(url=url, timeout_s=timeout_s)
    OPENED.append(StatusStore(connect(settings), "group", settings))
    return OPENED[-1]


@pytest.fixture(autouse=True)
def closed_afterwards() -> Iterator[None]:
    """Close what `store_at` has opened."""
    yield
    while OPENED:
        OPENED.pop().close()


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
    def one_call() -> None:
        with pytest.raises(RedisUnavailable) as caught:
            call(store_at(silent_url))
        # It did not even greet: no command of ours was sent.
        assert caught.value.never_reached

    in_time(one_call, limit_s=4 * TIMEOUT_S)


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


def test_an_error_that_the_caller_is_handling_says_nothing_about_the_call(
    redis_url: str, group: str
) -> None:
    settings = RedisSection(url=redis_url)
    with breaking_line(redis_url, over=b"EVALSHA") as url:
        store = StatusStore(connect(RedisSection(url=url)), group, settings)
        try:
            raise ConnectionRefusedError("the bank")
        except ConnectionRefusedError:
            with pytest.raises(RedisUnavailable) as caught:
                store.write([a_write(State.ACCEPTED)])
    assert not caught.value.never_reached
    store.close()


def test_an_error_that_a_task_is_handling_says_nothing_about_the_call(
    redis_url: str, group: str
) -> None:
    async def main() -> RedisUnavailable:
        with breaking_line(redis_url, over=b"EVALSHA") as url:
            settings = RedisSection(url=url)
            store = AsyncStatusStore(connect_async(settings), group, settings)
            try:
                raise ConnectionRefusedError("the bank")
            except ConnectionRefusedError:
                with pytest.raises(RedisUnavailable) as caught:
                    await store.write([a_write(State.ACCEPTED)])
            await store.aclose()
        return caught.value

    assert not asyncio.run(main()).never_reached


def test_a_restarted_server_is_used_at_once_and_told_the_script_again(server: Restartable) -> None:
    store = store_at(server.address, timeout_s=5)
    assert store.write([a_write(State.PENDING)]) == [None]
    server.kill()
    with pytest.raises(RedisUnavailable):
        store.read("r")
    server.start()
    assert store.read("r").state is State.UNKNOWN
    assert store.write([a_write(State.PENDING)]) == [None]


def test_an_idle_connection_that_was_dropped_is_replaced_unseen(server: Restartable) -> None:
    store = store_at(server.address, timeout_s=5)
    store.write([a_write(State.PENDING)])
    with Redis.from_url(server.address) as admin:
        admin.client_kill_filter(_type="normal", skipme=True)
    assert store.write([a_write(State.ACCEPTED)]) == [None]


def test_a_wrong_password_was_never_reached_and_is_not_repeated(server: Restartable) -> None:
    with Redis.from_url(server.address) as admin:
        admin.config_set("requirepass", "right")
    wrong = server.address.replace("redis://", "redis://:wr0ng@")
    with pytest.raises(RedisUnavailable) as caught:
        store_at(wrong).read("r")
    assert caught.value.never_reached
    assert "wr0ng" not in str(caught.value)


def test_a_full_server_takes_nothing_of_a_request(server: Restartable) -> None:
    store = store_at(server.address, timeout_s=5)
    with Redis.from_url(server.address) as admin:
        store.write([a_write(State.PENDING, "before")])
        admin.config_set("maxmemory-policy", "noeviction")
        admin.config_set("maxmemory", 1)
        with pytest.raises(RedisUnavailable, match="OutOfMemory") as caught:
            store.write([a_write(State.PENDING, payload=PAYLOAD)], look_at=1)
        assert caught.value.never_reached
        assert admin.dbsize() == 1


def full(server: Restartable) -> StatusStore:
    """Return the store of a server that has just become full."""
    store = store_at(server.address, timeout_s=5)
    store.write([a_write(State.FAILED, fields={"code": "BUSY", "resend": "1"}, payload=PAYLOAD)])
    store.beat("w", {})
    with Redis.from_url(server.address) as admin:
        admin.config_set("maxmemory-policy", "noeviction")
        admin.config_set("maxmemory", 1)
    return store


def test_a_full_server_still_answers_and_says_what_to_do(server: Restartable) -> None:
    store = full(server)
    assert store.read("r").code == "BUSY"
    with pytest.raises(RedisUnavailable, match="raise its maxmemory") as caught:
        store.write([a_write(State.RUNNING, generation=2)])
    assert "script:" not in str(caught.value)
    assert not isinstance(caught.value, RedisRefused)


def test_a_full_server_loses_nothing_of_what_a_refused_write_would_have_replaced(
    server: Restartable,
) -> None:
    store = full(server)
    before = store.read("r")
    for write in (
        a_write(State.RUNNING, generation=2),
        a_write(State.SUCCEEDED, payload_sha256=OTHER_SHA, restore=True),
    ):
        with pytest.raises(RedisUnavailable):
            store.write([write])
    assert store.read("r") == before
    assert store.kept_payload("r") == PAYLOAD


def test_on_a_full_server_a_worker_that_is_alive_stays_so(server: Restartable) -> None:
    store = full(server)
    key = store.worker_key("w")
    store.redis.pexpire(key, 600_000)
    assert store.beat("w", {"held": 1})
    # It was set anew, to `heartbeat_ttl_s`.
    assert store.redis.pttl(key) <= 5_000
    with pytest.raises(RedisUnavailable, match="OutOfMemory"):
        store.beat("not there yet", {})


def parsed(says: str) -> Exception:
    """Return what redis-py makes of a server's word."""
    error: Exception = BaseParser.parse_error(says)  # type: ignore[no-untyped-call]
    return error


REFUSING: list[tuple[str, str]] = [
    ("LOADING Redis is loading the dataset in memory", "reading its data"),
    ("READONLY You can't write against a read only replica.", "name the primary"),
    ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", "primary"),
    ("NOREPLICAS Not enough good replicas to write.", "replicas follow it"),
    ("BUSY Redis is busy running a script.", "SCRIPT KILL"),
    ("MISCONF Redis is configured to save RDB snapshots", "cannot write to its disk"),
    ("ERR Error running script (call to f_1): @user_script:7: -OOM command not allowed", "max"),
    ("NOPERM this user has no permissions to run the 'evalsha' command", "allow this user"),
    ("MOVED 3999 127.0.0.1:6381", "Redis Cluster"),
    ("ASK 3999 127.0.0.1:6381", "Redis Cluster"),
    ("CROSSSLOT Keys in request don't hash to the same slot", "Redis Cluster"),
]


@dataclass(frozen=True)
class ClusterNode(RedisServer):
    """A node of a Redis Cluster, which is all there is of it."""

    def command(self, folder: Path) -> ServerCommand:
        """Return the server's command."""
        command = super().command(folder)
        return replace(command, argv=(*command.argv, "--cluster-enabled", "yes"))


@pytest.mark.parametrize(("says", "advice"), REFUSING, ids=[one.split()[0] for one, _ in REFUSING])
def test_a_server_that_refuses_everything_is_as_good_as_away(says: str, advice: str) -> None:
    with pytest.raises(RedisUnavailable, match=advice) as caught, guarded():
        raise parsed(says)
    assert caught.value.never_reached
    assert not isinstance(caught.value, RedisRefused)


def test_a_redis_cluster_is_refused_by_name() -> None:
    with restartable(ClusterNode) as node, Redis.from_url(node.address) as admin:
        admin.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
        is_up = lambda: admin.execute_command("CLUSTER INFO")["cluster_state"] == "ok"  # noqa: E731
        eventually(is_up)
        store = store_at(node.address, timeout_s=5)
        with pytest.raises(RedisUnavailable, match="a Redis Cluster, which we do not") as caught:
            store.write([a_write(State.PENDING, "a"), a_write(State.PENDING, "b")])
        # It did nothing of it: no reason to leave a caller in doubt.
        assert caught.value.never_reached
        with pytest.raises(SettingsError, match="Redis Cluster"):
            store.server_version()


def test_a_user_without_channels_hears_which_to_allow(server: Restartable) -> None:
    with Redis.from_url(server.address) as admin:
        admin.acl_setuser(
            "user", enabled=True, passwords=["+p"], keys=["onceward:*"], commands=["+@all"],
            reset_channels=True,
        )  # fmt: skip
        store = store_at(server.address.replace("redis://", "redis://user:p@"), timeout_s=5)
        with pytest.raises(RedisUnavailable, match=r"&onceward:\*"):
            store.write([a_write(State.PENDING)])
        with pytest.raises(RedisUnavailable, match=r"&onceward:\*"):
            store.server_version()


def test_a_redis_that_drops_what_it_holds_is_known_by_its_policy(server: Restartable) -> None:
    store = store_at(server.address, timeout_s=5)
    assert store.evicts_by() == ""
    with Redis.from_url(server.address) as admin:
        admin.config_set("maxmemory-policy", "allkeys-lru")
        assert store.evicts_by() == "allkeys-lru"
        admin.config_set("maxmemory-policy", "noeviction")


def test_a_replica_that_takes_no_writes_is_named_as_such(server: Restartable) -> None:
    store = store_at(server.address, timeout_s=5)
    with Redis.from_url(server.address) as admin:
        admin.replicaof(HOST, str(free_port()))
        with pytest.raises(RedisUnavailable, match="name the primary in") as caught:
            store.write([a_write(State.PENDING)])
    assert caught.value.never_reached


def test_a_write_over_a_key_of_another_kind_is_refused_and_not_an_outage(
    server: Restartable,
) -> None:
    store = store_at(server.address, timeout_s=5)
    store.redis.set(store.request_key("odd"), "not a hash")
    with pytest.raises(RedisRefused, match="WRONGTYPE") as caught:
        store.write([a_write(State.PENDING, payload=PAYLOAD), a_write(State.PENDING, "odd")])
    assert "pipeline" not in str(caught.value)
    assert not caught.value.never_reached


def test_a_value_that_no_redis_can_carry_is_refused_before_anything_is_sent(
    server: Restartable,
) -> None:
    store = store_at(server.address, timeout_s=5)
    with pytest.raises(RedisRefused, match="UnicodeEncodeError") as caught:
        store.write([a_write(State.FAILED, fields={"message": "card \ud800"})])
    assert caught.value.never_reached
    assert "card" not in str(caught.value)
    assert store.write([a_write(State.PENDING)]) == [None]


def test_of_a_batch_only_the_writes_at_fault_are_left_out(server: Restartable) -> None:
    store = store_at(server.address, timeout_s=5)
    odd = {"r3", "r100", "r101", "r255"}
    for request_id in odd:
        store.redis.set(store.request_key(request_id), "not a hash")
    ids = [f"r{number}" for number in range(256)]
    answers = write_apart(store, [a_write(State.SUCCEEDED, one) for one in ids], look_at=1)
    at_fault = {one for one, answer in zip(ids, answers, strict=True) if answer is not None}
    assert at_fault == odd
    rest = [one for one in ids if one not in odd]
    assert {one.state for one in store.read_many(rest)} == {State.SUCCEEDED}


def test_the_version_of_the_server_is_told(server: Restartable) -> None:
    major, *_ = store_at(server.address, timeout_s=5).server_version().split(".")
    assert int(major) >= 6


def test_each_start_of_a_server_has_another_id(server: Restartable) -> None:
    store = store_at(server.address, timeout_s=5)
    first = store.beat("w", {})
    assert first
    assert store.beat("w", {}) == first
    server.kill()
    server.start()
    assert store.beat("w", {}) not in ("", first)


def test_a_server_that_may_not_be_asked_for_its_id_is_beaten_all_the_same(
    server: Restartable,
) -> None:
    with Redis.from_url(server.address) as admin:
        admin.acl_setuser("default", enabled=True, nopass=True, commands=["+@all", "-info"])
    store = store_at(server.address, timeout_s=5)
    assert store.beat("w", {}) == ""
    assert store.redis.exists(store.worker_key("w"))


def test_the_error_survives_a_process_boundary() -> None:
    error = pickle.loads(pickle.dumps(RedisUnavailable("gone", never_reached=True)))
    assert (str(error), error.never_reached) == ("gone", True)


@pytest.mark.long
def test_of_thousands_of_tasks_none_waits_for_long_for_a_server_that_says_nothing(
    silent_url: str,
) -> None:
    timeout_s = 2.0

    async def longest_s(timeout_s: float) -> float:
        settings = RedisSection(url=silent_url, timeout_s=timeout_s)
        store = AsyncStatusStore(connect_async(settings), "group", settings)

        async def one(number: int) -> float:
            began_s = monotonic_s()
            with pytest.raises(RedisUnavailable):
                if number % 2:
                    await store.read(f"r{number}")
                else:
                    await store.write([a_write(State.PENDING)], look_at=1)
            return monotonic_s() - began_s

        took_s = await asyncio.gather(*map(one, range(12_000)))
        await store.aclose()
        return max(took_s)

    # Group after group it would be 24 s; so many timers take a second or two beside it.
    timers_s = asyncio.run(longest_s(0.01))
    limit_s = 5 * timeout_s + timers_s
    assert fastest_s(lambda: asyncio.run(longest_s(timeout_s)), enough_s=limit_s) < limit_s
