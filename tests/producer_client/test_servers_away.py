"""Kafka or Redis away: bounded, named, and told apart from what may have happened."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from feedback.clock import monotonic_s
from feedback.envelope import Record
from feedback.errors import NotSent, RedisUnavailable, SendUnknown
from producer_client import Client
from tests.producer_client.acting import Worker
from tests.producer_client.conftest import MakeClient

TIMEOUT_S = 0.6


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
