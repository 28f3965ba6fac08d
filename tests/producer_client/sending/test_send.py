"""A first send: PENDING in Redis, the record in Kafka, and what is refused before either."""

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from feedback.clock import epoch_ms
from feedback.errors import InvalidMessage, NotSent
from feedback.records.envelope import Envelope, Record, decode_headers
from feedback.records.stored_payload import StoredPayload
from feedback.status import State
from producer_client import Client, Submission
from tests.producer_client.acting import Worker
from tests.producer_client.conftest import MakeClient
from tests.rounds import in_time

Records = Callable[[], list[Record]]


def test_a_sent_request_is_pending_with_its_deadline(client: Client) -> None:
    before = epoch_ms()
    handle = client.send({"amount": 5}, deadline_s=60)
    status = handle.status()
    assert (status.request_id, status.state, status.attempt) == (
        handle.request_id,
        State.PENDING,
        1,
    )
    assert status.topic == client.settings.client.topic
    assert status.deadline_at is not None
    assert before + 60_000 <= status.deadline_at <= epoch_ms() + 60_000
    assert handle.deadline_at == status.deadline_at


def test_its_payload_is_kept_for_a_resend_and_the_resender_will_look_at_it(
    client: Client, worker: Worker
) -> None:
    before = epoch_ms()
    sent = client.send(b"\x00\xff", key="card", headers=[("traceparent", b"00-1"), ("x", b"\xff")])
    kept = worker.store.kept_payload(sent.request_id)
    topic = client.settings.client.topic or ""
    headers = (("traceparent", b"00-1"), ("x", b"\xff"))
    assert kept == sent.payload == StoredPayload(topic, b"card", b"\x00\xff", headers)
    look_at = worker.looked_at(sent.request_id)
    assert look_at is not None
    assert before <= look_at - client.settings.client.resend_after_s * 1000 <= epoch_ms()


def test_the_record_carries_id_attempt_and_deadline_beside_the_users_own_headers(
    client: Client, records: Records
) -> None:
    own = [("traceparent", b"00-1"), ("traceparent", b"00-2")]
    handle = client.send("é", key=b"\xff", request_id="r1", headers=own)
    (record,) = records()
    assert (record.key, record.value) == (b"\xff", "é".encode())
    assert decode_headers(record) == Envelope("r1", 1, handle.status().deadline_at)
    assert record.headers == (
        ("traceparent", b"00-1"),
        ("traceparent", b"00-2"),
        ("onceward-request-id", b"r1"),
        ("onceward-attempt", b"1"),
        ("onceward-deadline", str(handle.deadline_at).encode()),
    )


def test_a_header_of_ours_is_refused_in_every_way_to_send(
    client: Client, worker: Worker, records: Records
) -> None:
    headers = [("onceward-outcome-id", b"\xff")]
    with pytest.raises(InvalidMessage, match="is ours"):
        client.send(b"v", request_id="r1", headers=headers)
    (result,) = client.send_many([Submission(b"v", headers=tuple(headers))])
    assert isinstance(result.error, InvalidMessage)
    assert worker.traces() == []
    assert records() == []


def test_null_and_empty_keys_and_values_reach_kafka_as_they_are(
    client: Client, records: Records, worker: Worker
) -> None:
    pairs: list[tuple[bytes | None, bytes | None]] = [
        (b"k", None), (b"", None), (None, b""), (b"", b""), (None, b"v"),
    ]  # fmt: skip
    handles = [client.send(value, key=key) for key, value in pairs]
    assert [(record.key, record.value) for record in records()] == pairs
    kept = [worker.store.kept_payload(handle.request_id) for handle in handles]
    assert [(one.key, one.value) for one in kept if one is not None] == pairs


def test_an_id_of_the_client_is_a_uuid_of_its_time(client: Client) -> None:
    before = epoch_ms()
    request_id = uuid.UUID(client.send(b"v").request_id)
    assert (request_id.version, request_id.variant) == (7, uuid.RFC_4122)
    assert before <= request_id.int >> 80 <= epoch_ms()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"request_id": ""}, "request id of 0 characters"),
        ({"request_id": "i" * 129}, "request id of 129 characters"),
        ({"request_id": "a b"}, "request id of 3 characters"),
        ({"request_id": "é"}, "request id"),
        ({"request_id": "a\n"}, "request id"),
        ({"value": None}, "neither key nor value"),
        ({"value": {"set": {1}}}, "JSON"),
        ({"value": [float("nan")]}, "JSON"),
        ({"deadline_s": 0.0}, "deadline"),
        ({"deadline_s": float("inf")}, "deadline"),
        ({"topic": "a b"}, "topic"),
        ({"headers": [("name", None)]}, "headers"),
    ],
)
def test_what_breaks_the_contract_is_refused_and_nothing_is_written(
    client: Client, worker: Worker, changes: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidMessage, match=named):
        client.send(**{"value": b"v"} | changes)
    assert worker.traces() == []


def test_a_record_that_is_too_large_is_not_sent_and_leaves_no_trace(
    make_client: MakeClient, worker: Worker, records: Records
) -> None:
    client = make_client(max_request_bytes=2_000)
    with pytest.raises(NotSent, match="larger than 2000 bytes") as caught:
        client.send(b"v" * 2_001, request_id="large")
    assert caught.value.request_id == "large"
    assert worker.traces() == []
    client.send(b"v" * 1_700, request_id="large")
    assert [len(record.value or b"") for record in records()] == [1_700]


def test_what_the_broker_finds_too_large_is_not_sent_and_leaves_no_trace(
    make_client: MakeClient, worker: Worker, records: Records
) -> None:
    client = make_client(max_request_bytes=3_000_000)
    with pytest.raises(NotSent, match="Kafka refused the record: MessageSizeTooLarge"):
        client.send(b"v" * 2_000_000)
    assert worker.traces() == []
    assert records() == []


def test_an_unknown_topic_is_named_in_time_and_leaves_no_trace(
    make_client: MakeClient, worker: Worker
) -> None:
    client = make_client(send_timeout_s=3)

    def send() -> None:
        with pytest.raises(NotSent, match="knows no topic 'nowhere'"):
            client.send(b"v", topic="nowhere")

    in_time(send, limit_s=4)
    assert worker.traces() == []


def test_threads_share_a_client(client: Client, records: Records) -> None:
    def send_twenty(thread: int) -> None:
        for number in range(20):
            client.send(b"v", request_id=f"{thread}-{number}")

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(send_twenty, range(16)))
    sent = sorted(f"{thread}-{number}" for thread in range(16) for number in range(20))
    assert sorted(decode_headers(record).request_id for record in records()) == sent
    assert {one.state for one in client.store.read_many(sent)} == {State.PENDING}


def test_leaving_the_block_ends_what_the_client_started(make_client: MakeClient) -> None:
    before = set(threading.enumerate())
    with make_client() as client:
        handle = client.send(b"v")
        with pytest.raises(Exception, match="still PENDING"):
            handle.wait(timeout_s=0.01)
        assert set(threading.enumerate()) - before
    # One of an earlier test may have ended meanwhile.
    assert set(threading.enumerate()) <= before
    client.close()
