"""Kafka or Redis away: bounded, named, and told apart from what may have happened."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from feedback.clock import monotonic_s
from feedback.envelope import Record
from feedback.errors import NotSent, RedisUnavailable, SendUnknown
from feedback.status import State
from producer_client import Client
from tests.feedback.slow_line import SlowLine, slow_line
from tests.producer_client.acting import Worker
from tests.producer_client.conftest import MakeClient
from tests.stack import Servers

TIMEOUT_S = 0.6
LONGER_S = 2.0
MARGIN_S = 0.5


def _seconds_until(kind: type[Exception], client: Client, *, named: str) -> float:
    began_s = monotonic_s()
    with pytest.raises(kind, match=named):
        client.send(b"v")
    return monotonic_s() - began_s


def test_kafka_that_refuses_connections_is_named_in_time_and_no_trace_is_left(
    make_client: MakeClient, worker: Worker, refusing: str
) -> None:
    client = make_client(kafka={"bootstrap_servers": refusing}, send_timeout_s=TIMEOUT_S)
    assert _seconds_until(NotSent, client, named=f"Kafka at {refusing} is away") < TIMEOUT_S + 1
    assert worker.traces() == []


def test_kafka_that_never_answers_is_named_in_time_and_no_trace_is_left(
    make_client: MakeClient, worker: Worker, mute: str
) -> None:
    client = make_client(kafka={"bootstrap_servers": mute}, send_timeout_s=TIMEOUT_S)
    assert _seconds_until(NotSent, client, named=f"Kafka at {mute} is away") < TIMEOUT_S + 1
    assert worker.traces() == []


def test_threads_that_send_at_once_wait_no_longer_than_one_of_them(
    make_client: MakeClient, worker: Worker, refusing: str
) -> None:
    client = make_client(kafka={"bootstrap_servers": refusing}, send_timeout_s=TIMEOUT_S)
    with ThreadPoolExecutor(8) as threads:
        sends = [threads.submit(_seconds_until, NotSent, client, named="is away") for _ in range(8)]
        assert max(one.result() for one in sends) < TIMEOUT_S + 1
    assert worker.traces() == []


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
    client = make_client(kafka={"bootstrap_servers": address}, send_timeout_s=LONGER_S)
    began_s = monotonic_s()
    with pytest.raises(NotSent, match="Kafka"):
        client.send(b"v", topic="no-such-topic")
    assert LONGER_S - 0.5 < monotonic_s() - began_s < LONGER_S + MARGIN_S
    assert worker.traces() == []


def test_what_redis_took_is_not_there_for_kafka_as_well(
    make_client: MakeClient, servers: Servers, refusing: str
) -> None:
    with slow_line(servers.redis) as line:
        line.delay_s = 0.3
        client = make_client(
            redis={"url": line.url},
            kafka={"bootstrap_servers": refusing},
            send_timeout_s=LONGER_S,
        )
        began_s = monotonic_s()
        with pytest.raises(NotSent, match="Kafka"):
            client.send(b"v", request_id="r1")
        # What was told is taken back after it.
        assert monotonic_s() - began_s < LONGER_S + line.delay_s + MARGIN_S


def test_what_redis_left_no_time_for_is_not_handed_to_kafka(
    make_client: MakeClient, servers: Servers, worker: Worker, records: Callable[[], list[Record]]
) -> None:
    with slow_line(servers.redis) as line:
        client = make_client(redis={"url": line.url}, send_timeout_s=0.8)
        client.send(b"v", request_id="r1")
        worker.accept("r1")
        # It is asked for the status, for the worker's heartbeat, and to take PENDING.
        line.delay_s = 0.3
        with pytest.raises(NotSent, match=r"no time was left|in time$"):
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
    began_s = monotonic_s()
    with pytest.raises((NotSent, SendUnknown), match="Redis"):
        client.send(b"v", request_id=request_id)
    assert monotonic_s() - began_s < TIMEOUT_S + MARGIN_S


@pytest.mark.parametrize("away", ["refusing", "mute"])
def test_every_send_ends_in_time_also_of_many_threads_while_kafka_is_away(
    make_client: MakeClient, request: pytest.FixtureRequest, away: str
) -> None:
    address = request.getfixturevalue(away)
    client = make_client(kafka={"bootstrap_servers": address}, send_timeout_s=LONGER_S)
    named = f"Kafka at {address} is away"
    with ThreadPoolExecutor(20) as threads:
        sends = [threads.submit(_seconds_until, NotSent, client, named=named) for _ in range(40)]
        assert max(one.result() for one in sends) < LONGER_S + MARGIN_S


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
        assert _seconds_until(NotSent, late, named="is away") < TIMEOUT_S + 1
    client.send(b"v", request_id="r1")
    assert late.status("r1") == client.status("r1")


def test_redis_that_refuses_connections_is_named_and_nothing_reaches_kafka(
    make_client: MakeClient, records: Callable[[], list[Record]], refusing: str
) -> None:
    client = make_client(redis={"url": f"redis://{refusing}/0"})
    assert _seconds_until(NotSent, client, named="Redis: .* (refused|failed)") < 1
    assert records() == []


def test_redis_that_never_answers_leaves_it_unknown_in_time_and_nothing_reaches_kafka(
    make_client: MakeClient, records: Callable[[], list[Record]], mute: str
) -> None:
    client = make_client(redis={"url": f"redis://{mute}/0", "timeout_s": 0.5})
    assert _seconds_until(SendUnknown, client, named="Redis: Timeout") < 2
    assert records() == []


def test_redis_that_never_answers_about_a_known_id_means_not_sent(
    make_client: MakeClient, mute: str
) -> None:
    client = make_client(redis={"url": f"redis://{mute}/0", "timeout_s": 0.5})
    began_s = monotonic_s()
    with pytest.raises(NotSent, match="Redis"):
        client.send(b"v", request_id="r1")
    assert monotonic_s() - began_s < 2


def test_asking_and_waiting_name_redis_when_it_is_away(
    make_client: MakeClient, refusing: str
) -> None:
    client = make_client(redis={"url": f"redis://{refusing}/0"})
    with pytest.raises(RedisUnavailable, match="Redis"):
        client.status("r1")
    began_s = monotonic_s()
    with pytest.raises(RedisUnavailable, match="Redis"):
        client.wait("r1", timeout_s=0.3)
    assert 0.3 <= monotonic_s() - began_s < 2
    with pytest.raises(RedisUnavailable, match="Redis"):
        list(client.wait_many(["r1"], timeout_s=0.3))
