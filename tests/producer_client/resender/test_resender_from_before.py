"""Requests that a Redis brought back when it came back: sent where Kafka has them, else left."""

from collections.abc import Callable
from typing import Any

import pytest
from kafka import KafkaProducer

from feedback.clock import epoch_ms, monotonic_s
from feedback.records.envelope import Record
from feedback.settings.settings import Settings
from feedback.status import State
from onceward.servers.ports import free_port
from producer_client import Client
from producer_client.resender.record_search import TimeSpan, spans_of
from producer_client.resender.resender import Resender
from producer_client.sending.resending import ResendReason
from tests.eventually import eventually
from tests.producer_client.acting import Worker
from tests.producer_client.conftest import MakeSettings
from tests.producer_client.resenders import attempts_of, look_now, running

Records = Callable[[], list[Record]]
RESEND_AFTER_S = 0.2
LIMIT_S = 60.0


@pytest.fixture
def settings(make_settings: MakeSettings) -> Settings:
    """Return the settings of a resender that is not patient."""
    return make_settings(resend_after_s=RESEND_AFTER_S, send_timeout_s=5.0)


def told_before(worker: Worker, *request_ids: str, **fields: str) -> None:
    """Let PENDINGs name an earlier start of Redis, and have them looked at."""
    for one in request_ids:
        key = worker.store.request_key(one)
        told: dict[Any, Any] = {"told_in": "an-earlier-start"} | fields
        worker.store.redis.hset(key, mapping=told)
        look_now(worker.store, one)


def taken_back(client: Client, worker: Worker, request_id: str) -> None:
    """Let Redis bring back a PENDING that was taken back: Kafka has no record of it."""
    sent = client.send(b"v", request_id="sent-" + request_id)
    kept: dict[Any, Any] = worker.store.redis.hgetall(worker.store.request_key(sent.request_id))
    worker.store.redis.hset(worker.store.request_key(request_id), mapping=kept)
    worker.store.redis.delete(worker.store.request_key(sent.request_id))
    worker.store.redis.zrem(worker.store.deadlines_key, sent.request_id)
    told_before(worker, request_id)


def test_what_kafka_has_is_sent_again_soon(
    client: Client, worker: Worker, records: Records, settings: Settings
) -> None:
    request_ids = [client.send(b"%d" % number).request_id for number in range(3)]
    told_before(worker, *request_ids)
    with running(settings) as resender:
        sent = resender.sends(3)
    assert sorted(one.request_id for one in sent[:3]) == sorted(request_ids)
    assert {(one.attempt, one.why) for one in sent[:3]} == {(2, ResendReason.SILENT)}
    assert all(attempts[:2] == [1, 2] for attempts in attempts_of(records()).values())


def test_what_kafka_has_not_is_left_alone_and_searched_for_less_and_less(
    client: Client,
    worker: Worker,
    records: Records,
    settings: Settings,
    caplog: pytest.LogCaptureFixture,
) -> None:
    taken_back(client, worker, "back")
    there = client.send(b"v").request_id
    told_before(worker, there)
    before = len(records())
    with running(settings) as resender:
        resender.sends(1)
        for _ in range(2):
            look_now(worker.store, "back")
            eventually(
                lambda: (worker.looked_at("back") or 0) > epoch_ms(), what="it is looked for later"
            )
        eventually(lambda: "requests.not_found" in caplog.text, what="that it is not there")
        assert {*resender.ids()} == {there}
    status = worker.store.read("back")
    assert (status.state, status.attempt, status.told_in) == (State.PENDING, 1, "an-earlier-start")
    assert {*attempts_of(records()[before:])} == {there}


def test_a_record_of_another_sending_of_it_is_no_proof(
    client: Client, worker: Worker, settings: Settings
) -> None:
    request_id = client.send(b"v").request_id
    deadline_at = worker.store.read(request_id).deadline_at or 0
    told_before(worker, request_id, deadline_at=str(deadline_at + 1))
    there = client.send(b"v").request_id
    with running(settings) as resender:
        eventually(lambda: (worker.looked_at(request_id) or 0) > epoch_ms(), what="a search")
        told_before(worker, there)
        resender.sends(1)
        assert {*resender.ids()} == {there}


def test_what_others_have_marked_is_checked_at_once(
    client: Client, worker: Worker, settings: Settings
) -> None:
    request_id = client.send(b"v").request_id
    told_before(worker, request_id)
    seen = worker.store.read(request_id)
    # Another resender has marked it, and died before it had it checked.
    this_start = worker.store.redis.info("server")["run_id"]
    worker.store.redis.hset(worker.store.request_key(request_id), "told_in", this_start)
    look_now(worker.store, request_id, in_s=600)
    with running(settings) as resender:
        resender.resender._search.add(seen.topic or "", [seen])
        resender.sends(1)


def test_a_record_behind_one_of_a_clock_that_is_ahead_is_found(
    client: Client, worker: Worker, settings: Settings
) -> None:
    topic = settings.client.topic or ""
    with KafkaProducer(bootstrap_servers=settings.kafka.bootstrap_servers) as producer:
        producer.send(topic, b"ahead", timestamp_ms=epoch_ms() + 3_600_000).get(LIMIT_S)
    request_id = client.send(b"v").request_id
    told_before(worker, request_id)
    with running(settings) as resender:
        assert {one.request_id for one in resender.sends(1)} == {request_id}


def test_one_pass_without_kafka_ends_soon_and_says_so(
    client: Client, worker: Worker, make_settings: MakeSettings
) -> None:
    request_id = client.send(b"v").request_id
    told_before(worker, request_id)
    nobody = f"127.0.0.1:{free_port()}"
    once = Resender(make_settings(resend_after_s=0.001, kafka={"bootstrap_servers": nobody}))
    try:
        began_s = monotonic_s()
        assert not once.once()
        assert monotonic_s() - began_s < LIMIT_S
    finally:
        once.close()


def test_one_pass_sends_what_it_finds(
    client: Client, worker: Worker, records: Records, make_settings: MakeSettings
) -> None:
    request_id = client.send(b"v").request_id
    told_before(worker, request_id)
    once = Resender(make_settings(resend_after_s=0.001))
    try:
        assert once.once()
    finally:
        once.close()
    assert attempts_of(records())[request_id][:2] == [1, 2]


def test_one_search_goes_over_the_times_that_lie_together() -> None:
    assert spans_of([], send_timeout_s=5) == []
    assert spans_of([100_000, 90_000, 130_000], send_timeout_s=5) == [TimeSpan(75_000, 150_000)]
    # 15 s for the clocks at either end, and the time of a send.
    assert spans_of([1_000, 36_001], send_timeout_s=5) == [
        TimeSpan(0, 21_000),
        TimeSpan(21_001, 56_001),
    ]
    assert spans_of([1_000, 36_000], send_timeout_s=5) == [TimeSpan(0, 56_000)]
