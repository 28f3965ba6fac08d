"""Kafka or Redis away: bounded, named, and told apart from what may have happened."""

import re
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from feedback.clock import monotonic_s
from feedback.errors import NotSent, RedisUnavailable, SecurityKind, SendUnknown
from feedback.kafka.kafka_python.sockets import LOOKUP_S
from feedback.records.envelope import Record
from feedback.status import State
from onceward.servers.ports import HOST
from producer_client import Client
from producer_client.client.timed_reads import LAST_LOOK_S
from tests.feedback.breaking_line import breaking_line
from tests.feedback.slow_line import SlowLine, slow_line
from tests.producer_client.acting import Worker
from tests.producer_client.conftest import MakeClient
from tests.rounds import fastest_s, in_time
from tests.stack import Servers
from tests.stack.tls_front import self_signed, tls_front

pytestmark = pytest.mark.waits

TIMEOUT_S = 0.6
LONGER_S = 2.0
MARGIN_S = 0.5


class _Unheard(Exception):
    """A task was not told in time why Kafka takes nothing: it says that it was not ready."""


# While the machine stands still Redis does not answer in time that a request was taken back.
_UNKNOWN = (SendUnknown, _Unheard)


def _seconds_until(
    kind: type[Exception] | tuple[type[Exception], ...], client: Client, *, named: str
) -> float:
    began_s = monotonic_s()
    with pytest.raises(kind) as caught:
        client.send(b"v")
    taken_s = monotonic_s() - began_s
    if "was not ready for topic" in str(caught.value):
        raise _Unheard
    assert re.search(named, str(caught.value))
    return taken_s


def _fails_in_time(
    kind: type[Exception] | tuple[type[Exception], ...],
    client: Client,
    *,
    named: str,
    limit_s: float,
) -> bool:
    """Whether sends of a client fail with this error each, and one of some within the limit."""
    seconds = partial(_seconds_until, kind, client, named=named)
    return fastest_s(seconds, enough_s=limit_s, noise=_UNKNOWN) < limit_s


def _leaves_no_trace(worker: Worker, seconds: Callable[[], float]) -> None:
    """Check that sends end in time, and that those which nobody is to run leave nothing in Redis.

    Args:
        seconds: sends, sees `NotSent` each time, and returns how long it took.
    """

    def told_s() -> float:
        try:
            taken_s = seconds()
        except SendUnknown:
            worker.lose_all()
            raise
        assert worker.traces() == []
        return taken_s

    assert fastest_s(told_s, enough_s=TIMEOUT_S + 1, noise=_UNKNOWN) < TIMEOUT_S + 1


def test_kafka_that_refuses_connections_is_named_in_time_and_no_trace_is_left(
    make_client: MakeClient, worker: Worker, refusing: str
) -> None:
    client = make_client(kafka={"bootstrap_servers": refusing}, send_timeout_s=TIMEOUT_S)
    named = f"Kafka at {refusing} is away"
    _leaves_no_trace(worker, partial(_seconds_until, NotSent, client, named=named))


def test_kafka_that_never_answers_is_named_in_time_and_no_trace_is_left(
    make_client: MakeClient, worker: Worker, mute: str
) -> None:
    client = make_client(kafka={"bootstrap_servers": mute}, send_timeout_s=TIMEOUT_S)
    named = f"Kafka at {mute} is away"
    _leaves_no_trace(worker, partial(_seconds_until, NotSent, client, named=named))


def _longest_s(client: Client, named: str, *, threads: int, sends: int) -> float:
    """Return how long the one took that waited for longest."""
    with ThreadPoolExecutor(threads) as pool:
        taken = [pool.submit(_seconds_until, NotSent, client, named=named) for _ in range(sends)]
        return max(one.result() for one in taken)


def test_threads_that_send_at_once_wait_no_longer_than_one_of_them(
    make_client: MakeClient, worker: Worker, refusing: str
) -> None:
    client = make_client(kafka={"bootstrap_servers": refusing}, send_timeout_s=TIMEOUT_S)
    _leaves_no_trace(worker, partial(_longest_s, client, "is away", threads=8, sends=8))


@pytest.fixture(name="slow")
def slow_kafka(servers: Servers, left_open: None) -> Iterator[SlowLine]:
    """Yield a line to Kafka on which each answer to a client that connects takes half a second."""
    with slow_line(f"kafka://{servers.kafka}") as line:
        line.delay_s = 0.5
        yield line


def test_what_connecting_took_is_not_there_for_the_topic_as_well(
    make_client: MakeClient, worker: Worker, slow: SlowLine
) -> None:
    address = slow.address

    def send() -> None:
        client = make_client(kafka={"bootstrap_servers": address}, send_timeout_s=LONGER_S)
        began_s = monotonic_s()
        with pytest.raises(NotSent, match="Kafka"):
            client.send(b"v", topic="no-such-topic")
        assert monotonic_s() - began_s > LONGER_S - 0.5

    in_time(send, limit_s=LONGER_S + MARGIN_S)
    assert worker.traces() == []


def test_what_redis_took_is_not_there_for_kafka_as_well(
    make_client: MakeClient, servers: Servers, refusing: str
) -> None:
    with slow_line(servers.redis) as line:
        line.delay_s = 0.3

        def send() -> None:
            client = make_client(
                redis={"url": line.url},
                kafka={"bootstrap_servers": refusing},
                send_timeout_s=LONGER_S,
            )
            with pytest.raises(NotSent, match="Kafka"):
                client.send(b"v", request_id="r1")

        # What was told is taken back after it.
        in_time(send, limit_s=LONGER_S + line.delay_s + MARGIN_S, noise=_UNKNOWN)


def test_what_redis_left_no_time_for_is_not_handed_to_kafka(
    make_client: MakeClient, servers: Servers, worker: Worker, records: Callable[[], list[Record]]
) -> None:
    with slow_line(servers.redis) as line:
        # Longer than a send: else one answer alone may be too late, not all together.
        client = make_client(redis={"url": line.url, "timeout_s": 10}, send_timeout_s=4)
        client.send(b"v", request_id="r1")
        worker.accept("r1")
        # It is asked for the status, for the worker's heartbeat, and to take PENDING.
        line.delay_s = 1.5
        with pytest.raises(SendUnknown, match=r"no time was left|in time;"):
            client.send(b"v", request_id="r1")
        line.delay_s = 0.0
        assert client.status("r1").state is State.LOST
    assert len(records()) == 1


@pytest.mark.parametrize("request_id", [None, "r1"])
def test_redis_that_never_answers_takes_no_longer_than_a_send_may(
    make_client: MakeClient, mute: str, request_id: str | None
) -> None:
    client = make_client(
        redis={"url": f"redis://{mute}/0", "timeout_s": 10}, send_timeout_s=TIMEOUT_S
    )

    def send() -> None:
        with pytest.raises((NotSent, SendUnknown), match="Redis"):
            client.send(b"v", request_id=request_id)

    in_time(send, limit_s=TIMEOUT_S + MARGIN_S)


@pytest.mark.parametrize("away", ["refusing", "mute"])
def test_every_send_ends_in_time_also_of_many_threads_while_kafka_is_away(
    make_client: MakeClient, request: pytest.FixtureRequest, away: str
) -> None:
    address = request.getfixturevalue(away)
    client = make_client(kafka={"bootstrap_servers": address}, send_timeout_s=LONGER_S)
    named = f"Kafka at {address} is away"
    longest = partial(_longest_s, client, named, threads=20, sends=40)
    limit_s = LONGER_S + MARGIN_S
    assert fastest_s(longest, enough_s=limit_s, noise=_UNKNOWN) < limit_s


@pytest.mark.parametrize(
    "wrong", [{"bootstrap_servers": ":::"}, {"security_protocol": "SSL", "ssl_cafile": "/absent"}]
)
def test_settings_that_kafka_python_cannot_use_are_told_and_no_trace_is_left(
    make_client: MakeClient, worker: Worker, left_open: None, wrong: dict[str, str]
) -> None:
    client = make_client(kafka=wrong, send_timeout_s=TIMEOUT_S)
    with pytest.raises(NotSent, match=r"Kafka|\[kafka\]"):
        client.send(b"v")
    assert worker.traces() == []


def test_a_client_works_on_when_kafka_comes_after_a_failed_send(
    make_client: MakeClient, worker: Worker, refusing: str, client: Client
) -> None:
    late = make_client(kafka={"bootstrap_servers": refusing}, send_timeout_s=TIMEOUT_S)
    for _ in range(2):
        assert _fails_in_time(NotSent, late, named="is away", limit_s=TIMEOUT_S + 1)
    client.send(b"v", request_id="r1")
    assert late.status("r1") == client.status("r1")


def test_redis_that_refuses_connections_is_named_and_nothing_reaches_kafka(
    make_client: MakeClient, records: Callable[[], list[Record]], refusing: str
) -> None:
    client = make_client(redis={"url": f"redis://{refusing}/0"})
    named = "Redis: .* (refused|failed)"
    assert _fails_in_time(NotSent, client, named=named, limit_s=1)
    assert records() == []


def test_redis_that_does_not_even_greet_got_no_request_and_kafka_gets_none(
    make_client: MakeClient, records: Callable[[], list[Record]], mute: str
) -> None:
    client = make_client(redis={"url": f"redis://{mute}/0", "timeout_s": 0.5})
    assert _fails_in_time(NotSent, client, named="Redis: Timeout", limit_s=2)
    assert records() == []


def test_redis_whose_certificate_is_refused_got_no_request_and_kafka_gets_none(
    make_client: MakeClient, records: Callable[[], list[Record]], tmp_path: Path
) -> None:
    certificate = self_signed(tmp_path, "redis", host=HOST, days=-1)
    with tls_front(certificate) as port:
        url = f"rediss://{HOST}:{port}/0?ssl_ca_certs={certificate.cert}"
        client = make_client(redis={"url": url})
        with pytest.raises(NotSent, match="is not valid at this time") as caught:
            client.send(b"v")
    assert caught.value.fault is not None
    assert caught.value.fault.kind is SecurityKind.EXPIRED
    assert records() == []


def test_redis_that_never_answers_about_an_id_leaves_it_unknown(
    make_client: MakeClient, mute: str
) -> None:
    client = make_client(redis={"url": f"redis://{mute}/0", "timeout_s": 0.5})

    def send() -> None:
        with pytest.raises(SendUnknown, match="Redis"):
            client.send(b"v", request_id="r1")

    in_time(send, limit_s=2)


def _waits_in_vain(client: Client, timeout_s: float) -> None:
    began_s = monotonic_s()
    with pytest.raises(RedisUnavailable, match="Redis"):
        client.wait("r1", timeout_s=timeout_s)
    assert monotonic_s() - began_s >= timeout_s


def test_asking_and_waiting_name_redis_when_it_is_away(
    make_client: MakeClient, refusing: str
) -> None:
    client = make_client(redis={"url": f"redis://{refusing}/0"})
    with pytest.raises(RedisUnavailable, match="Redis"):
        client.status("r1")
    in_time(partial(_waits_in_vain, client, 0.3), limit_s=2)
    with pytest.raises(RedisUnavailable, match="Redis"):
        list(client.wait_many(["r1"], timeout_s=0.3))


def test_a_wait_ends_in_its_own_time_though_redis_hangs(make_client: MakeClient, mute: str) -> None:
    client = make_client(redis={"url": f"redis://{mute}/0", "timeout_s": 4}, send_timeout_s=8)
    in_time(partial(_waits_in_vain, client, 0.5), limit_s=0.5 + LAST_LOOK_S + MARGIN_S)


def test_a_wait_for_many_ends_in_its_own_time_though_redis_hangs(
    make_client: MakeClient, mute: str
) -> None:
    redis_s = 8.0
    client = make_client(
        redis={"url": f"redis://{mute}/0", "timeout_s": redis_s}, send_timeout_s=2 * redis_s
    )

    def wait() -> None:
        with pytest.raises(RedisUnavailable, match=f"no answer within {LAST_LOOK_S:g} s"):
            list(client.wait_many(["r1", "r2", "r3"], timeout_s=0.25))

    in_time(wait, limit_s=redis_s / 2)


@pytest.fixture
def hanging_name(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the name of a host about which the resolver says nothing for the time of a test."""
    is_over, ask = threading.Event(), socket.getaddrinfo

    def hang(host: str, *given: Any, **named: Any) -> Any:
        if host == "hangs.example":
            is_over.wait(15)
        return ask(host, *given, **named)

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    yield "hangs.example"
    is_over.set()


@pytest.mark.parametrize("server", ["kafka", "redis"])
def test_a_resolver_that_hangs_takes_no_longer_than_a_send_may(
    make_client: MakeClient, hanging_name: str, server: str
) -> None:
    where = {
        "kafka": {"kafka": {"bootstrap_servers": f"{hanging_name}:9092"}},
        "redis": {"redis": {"url": f"redis://{hanging_name}:6379/0"}},
    }
    # To asyncio it is like any connection that is not made in time.
    named = f"{hanging_name}|Timeout connecting"

    def seconds() -> float:
        client = make_client(**where[server], send_timeout_s=1)
        return _seconds_until((NotSent, SendUnknown), client, named=named)

    limit_s = 1 + LOOKUP_S + MARGIN_S
    assert fastest_s(seconds, enough_s=limit_s, rounds=3) < limit_s


def test_a_send_within_an_except_is_unknown_when_redis_has_it_and_its_answer_is_lost(
    make_client: MakeClient, servers: Servers, worker: Worker
) -> None:
    with breaking_line(servers.redis, over=b"EVALSHA") as url:
        client = make_client(redis={"url": url})
        try:
            raise ConnectionRefusedError("the bank")
        except ConnectionRefusedError:
            with pytest.raises(SendUnknown) as caught:
                client.send(b"v")
    # The resender will send it: whoever is told NotSent asks again under another id.
    assert worker.store.read(caught.value.request_id).state is State.PENDING
