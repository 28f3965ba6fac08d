"""The front door on the real servers: accepted is durable, a repeat is the same request."""

from __future__ import annotations

import socket
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import httpx
import pytest
from pydantic import BaseModel, field_validator

from feedback.records.envelope import decode_headers
from feedback.status import State
from producer_client.http.ids import request_id_of
from producer_client.outbox import migrate
from tests.eventually import eventually
from tests.producer_client.conftest import MakeSettings
from tests.producer_client.http.conftest import (
    LIMIT_S,
    Served,
    create_topics,
    name_of_topic,
    served,
)
from tests.producer_client.outbox.conftest import relaying
from tests.producer_client.records import records_of
from tests.stack import Servers

AtOnce = Callable[..., Future[Any]]


@pytest.fixture
def outbox_url(sqlite_url: str) -> str:
    """Return the URL of a database with an outbox."""
    migrate(sqlite_url)
    return sqlite_url


@pytest.fixture
def key() -> str:
    """Return a key nobody else uses."""
    return uuid.uuid4().hex


def _kind(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["Content-Type"] == "application/problem+json"
    return answer.status_code, answer.json()["type"].removeprefix("urn:onceward:problem:")


def _ids(front: Served) -> list[str | None]:
    return [decode_headers(one).request_id for one in front.records()]


def test_accepted_is_in_kafka_and_in_redis_and_is_followed_to_its_end(
    front: Served, key: str
) -> None:
    accepted = front.post(key, Onceward_Key="card-1")
    assert accepted.status_code == 202
    request_id = accepted.json()["request_id"]
    # Both at once, without waiting.
    assert front.worker.store.read(request_id).state is State.PENDING
    record = front.records()[-1]
    assert decode_headers(record).request_id == request_id
    assert (record.key, record.value) == (b"card-1", b'{"amount":5}')
    place = accepted.headers["Location"]
    seen = front.http.get(place)
    assert (seen.status_code, seen.json()["state"], seen.json()["final"]) == (200, "PENDING", False)
    assert seen.headers["Retry-After"] == "1"
    known = {"If-None-Match": seen.headers["ETag"]}
    assert front.http.get(place, headers=known).status_code == 304
    front.worker.tell(request_id, State.SUCCEEDED, result='{"receipt":7}')
    ended = front.http.get(place, headers=known)
    assert (ended.status_code, ended.json()["result"]) == (200, {"receipt": 7})
    assert "Retry-After" not in ended.headers


def test_a_repeat_is_the_same_request_and_never_a_second_run(front: Served, key: str) -> None:
    first = front.post(key)
    request_id = first.json()["request_id"]
    assert "Idempotent-Replayed" not in first.headers
    # A PENDING may yet be taken back by its own sender: it is sent again, and the journal answers.
    again = front.post(key)
    assert (again.status_code, again.headers["Idempotent-Replayed"]) == (202, "true")
    assert again.json()["request_id"] == request_id
    front.worker.tell(request_id, State.RUNNING)
    sent = _ids(front).count(request_id)
    assert front.post(key).json()["state"] == "RUNNING"
    front.worker.tell(request_id, State.FAILED, code="BANK_AWAY", resend="1")
    # Its caller may have read the failure, and asked for the same under another key.
    late = front.post(key)
    assert (late.status_code, late.json()["state"]) == (202, "FAILED")
    assert front.worker.store.read(request_id).state is State.FAILED
    assert _ids(front).count(request_id) == sent


def test_a_key_that_is_sent_twice_at_once_is_one_request(
    front: Served, key: str, at_once: AtOnce
) -> None:
    answers = [one.result() for one in [at_once(front.post, key) for _ in range(8)]]
    assert {one.status_code for one in answers} == {202}
    assert len({one.json()["request_id"] for one in answers}) == 1
    first_ones = [one for one in answers if "Idempotent-Replayed" not in one.headers]
    assert first_ones


def test_another_payload_or_topic_under_a_key_is_a_422(front: Served, key: str) -> None:
    front.post(key)
    assert _kind(front.post(key, body=b'{"amount":6}')) == (422, "other-payload")
    _, other = front.settings.http.topics
    headers = {"Idempotency-Key": f'"{key}"'}
    elsewhere = front.http.post(f"/v1/{other}", json={"amount": 5}, headers=headers)
    assert _kind(elsewhere) == (422, "other-payload")
    assert front.worker.store.read(request_id_of("", key)).state is State.PENDING


def test_a_read_token_opens_its_request_without_credentials(front: Served, key: str) -> None:
    mine, other = (front.post(f"{key}-{one}", X_Name="shop").json() for one in "ab")
    events = mine["links"]["events"]
    assert events.endswith(f"/events?token={mine['read_token']}")
    with front.http.stream("GET", events) as stream:
        assert stream.status_code == 200
    opened = f"{mine['links']['self']}?token={mine['read_token']}"
    assert front.http.get(opened).json()["request_id"] == mine["request_id"]
    for page in (f"{other['links']['self']}?token={mine['read_token']}", f"{opened}x", opened[:-1]):
        assert _kind(front.http.get(page)) == (404, "not-found")


def test_two_callers_may_use_one_key_and_neither_sees_the_others(front: Served, key: str) -> None:
    shop = front.post(key, X_Name="shop")
    bank = front.post(key, X_Name="bank", body=b'{"amount":6}')
    assert (shop.status_code, bank.status_code) == (202, 202)
    place = shop.headers["Location"]
    assert place != bank.headers["Location"]
    assert front.http.get(place, headers={"X-Name": "shop"}).status_code == 200
    for page in (place, f"{place}/events", f"{place}?wait=1", f"{place}?token=x"):
        stolen = front.http.get(page, headers={"X-Name": "bank"})
        assert _kind(stolen) == (404, "not-found")
    resent = front.http.post(f"{place}/resend", headers={"X-Name": "bank", "If-Match": "*"})
    assert _kind(resent) == (404, "not-found")


def test_a_bare_key_is_taken_with_a_warning_and_is_the_quoted_one(front: Served, key: str) -> None:
    bare = front.post(key, Idempotency_Key=key)
    assert bare.status_code == 202
    assert bare.headers["Warning"].startswith('299 - "Idempotency-Key is not quoted')
    assert front.post(key).json()["request_id"] == bare.json()["request_id"]


def test_pages_and_methods_that_are_not_there_are_problems_as_well(front: Served) -> None:
    assert _kind(front.http.get("/v2")) == (404, "no-such-page")
    assert _kind(front.http.get(f"/v1/{front.topic}")) == (405, "no-such-method")
    assert _kind(front.http.post("/v1/others", json=1)) == (404, "no-such-topic")
    assert _kind(front.http.get("/v1/requests/nobody")) == (404, "not-found")
    nobody = f"/v1/requests/{request_id_of('', 'nobody')}"
    assert _kind(front.http.get(nobody)) == (404, "not-found")


def test_a_wait_that_is_preferred_ends_with_the_outcome_or_in_time(
    front: Served, key: str, at_once: AtOnce
) -> None:
    early = front.post(key, Prefer="respond-async, wait=0")
    assert (early.status_code, early.headers["Preference-Applied"]) == (202, "respond-async")
    waiting = at_once(front.post, key, Prefer="wait=20")
    request_id = early.json()["request_id"]
    eventually(lambda: len(_ids(front)) and front.worker.store.read(request_id).attempt == 2)
    front.worker.tell(request_id, State.SUCCEEDED, result="7")
    ended = waiting.result()
    assert (ended.status_code, ended.json()["result"]) == (200, 7)
    assert ended.elapsed.total_seconds() < 15


def test_a_long_poll_is_held_until_there_is_news(front: Served, key: str, at_once: AtOnce) -> None:
    place = front.post(key).headers["Location"]
    request_id = place.rpartition("/")[2]
    tag = front.http.get(place).headers["ETag"]
    assert front.http.get(f"{place}?wait=1", headers={"If-None-Match": tag}).status_code == 304
    news = at_once(front.http.get, f"{place}?wait=20", headers={"If-None-Match": tag})
    end = at_once(front.http.get, f"{place}?wait=20")
    front.worker.tell(request_id, State.RUNNING)
    assert news.result().json()["state"] == "RUNNING"
    front.worker.tell(request_id, State.SUCCEEDED, result="7")
    assert end.result().json()["state"] == "SUCCEEDED"


def test_a_failure_that_a_resend_may_help_is_sent_again_once_it_was_read(
    front: Served, key: str
) -> None:
    place = front.post(key).headers["Location"]
    request_id = place.rpartition("/")[2]
    assert _kind(front.http.post(f"{place}/resend")) == (409, "not-resendable")
    front.worker.tell(request_id, State.FAILED, code="BANK_AWAY", resend="1")
    failed = front.http.get(place)
    assert failed.json()["links"]["resend"] == f"{place}/resend"
    assert _kind(front.http.post(f"{place}/resend")) == (428, "etag-missing")
    other = front.http.post(f"{place}/resend", headers={"If-Match": '"other"'})
    assert _kind(other) == (412, "changed")
    read = {"If-Match": failed.headers["ETag"]}
    resent = front.http.post(f"{place}/resend", headers=read)
    assert (resent.status_code, resent.json()["state"], resent.json()["attempt"]) == (
        202,
        "PENDING",
        2,
    )
    assert _ids(front).count(request_id) == 2
    # The same call, that a proxy repeats late.
    assert _kind(front.http.post(f"{place}/resend", headers=read))[0] in (409, 412)


def test_not_accepted_is_nowhere(servers: Servers, refusing: str) -> None:
    # Of 1 s Redis would have half, in which a machine that stands still takes nothing back.
    away = {"kafka": {"bootstrap_servers": refusing}, "client": {"send_timeout_s": 6}}
    with served(servers, **away) as door:
        answer = door.post("order-7")
        assert _kind(answer) == (503, "not-accepted")
        assert answer.headers["Retry-After"] == "5"
        assert answer.json()["idempotency_key"] == "order-7"
        assert door.worker.traces() == []
        assert door.http.get("/ready").status_code == 200


def test_with_an_outbox_it_accepts_while_kafka_is_away(
    servers: Servers, refusing: str, outbox_url: str, make_settings: MakeSettings
) -> None:
    away = {"kafka": {"bootstrap_servers": refusing}, "client": {"send_timeout_s": 2}}
    http = {"outbox": True}
    with served(servers, **away, http=http, outbox={"url": outbox_url}) as door:
        create_topics(servers, door.topic)
        first, again = door.post("order-7"), door.post("order-7")
        assert (first.status_code, again.status_code) == (202, 202)
        assert again.headers["Idempotent-Replayed"] == "true"
        assert door.http.get(first.headers["Location"]).json()["state"] == "PENDING"
        assert _kind(door.post("order-7", body=b"6")) == (422, "other-payload")
        group = door.settings.kafka.group
        with relaying(make_settings(kafka={"group": group}, outbox={"url": outbox_url})):
            sent = eventually(lambda: records_of(servers.kafka, door.topic), timeout_s=60)
    assert {decode_headers(one).request_id for one in sent} == {first.json()["request_id"]}


def test_with_an_outbox_nothing_is_promised_that_is_nowhere(
    servers: Servers, refusing: str, mute: str, outbox_url: str
) -> None:
    http, lost = {"outbox": True}, f"postgresql+psycopg://me@{refusing}/none"
    away: dict[str, Any] = {"redis": {"url": f"redis://{mute}/0"}, "client": {"send_timeout_s": 2}}
    with served(servers, **away, http=http, outbox={"url": outbox_url}) as door:
        accepted = door.post("order-7")
        assert (accepted.status_code, accepted.json()["state"]) == (202, "PENDING")
        assert "Idempotent-Replayed" not in accepted.headers
        assert _kind(door.http.get(accepted.headers["Location"])) == (503, "unavailable")
        assert door.http.get("/ready").status_code == 200
    with served(servers, **away, http=http, outbox={"url": lost}) as door:
        ready = door.http.get("/ready")
        assert (ready.status_code, "and the outbox: " in ready.text) == (503, True)
    away = {"kafka": {"bootstrap_servers": refusing}, "client": {"send_timeout_s": 1}}
    with served(servers, **away, http=http, outbox={"url": lost}) as door:
        # Another front door may have written its row, in the database that is away.
        assert _kind(door.post("order-7")) == (503, "unknown")
        assert door.worker.traces() == []
        page = f"/v1/requests/{request_id_of('', 'order-7')}"
        assert _kind(door.http.get(page)) == (503, "unavailable")


def test_unknown_is_to_be_sent_again_under_its_key(servers: Servers, mute: str) -> None:
    # A Redis that hangs may have been told or not.
    with served(servers, redis={"url": f"redis://{mute}/0", "timeout_s": 0.3}) as door:
        answer = door.post("order-7")
        assert _kind(answer) == (503, "unknown")
        assert answer.json()["request_id"] == request_id_of("", "order-7")
        assert _kind(door.http.get(f"/v1/requests/{request_id_of('', 'order-7')}")) == (
            503,
            "unavailable",
        )
        assert door.http.get("/ready").status_code == 503


def test_limits_of_rate_body_and_time(servers: Servers) -> None:
    topic = name_of_topic()
    create_topics(servers, topic)
    limits = {"submit_rate": "3/hour", "max_body_bytes": 50, "body_timeout_s": 0.3}
    with served(servers, http={"topics": [topic], **limits}) as door:
        # Without a length that could be looked at first.
        long = door.http.post(
            f"/v1/{topic}",
            content=iter([b"1" * 40, b"1" * 40]),
            headers={"Content-Type": "application/json", "Idempotency-Key": "a"},
        )
        assert _kind(long) == (413, "too-large")
        assert b" 408 " in _half_a_body(door)
        assert door.post("order-7").status_code == 202
        many = door.post("order-8")
        assert _kind(many) == (429, "too-many")
        assert 1 < int(many.headers["Retry-After"]) <= 1200
        assert door.post("order-8", X_Name="other").status_code == 202


def _half_a_body(door: Served) -> bytes:
    with socket.create_connection(door.address, timeout=10) as connection:
        head = f"POST /v1/{door.topic} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Idempotency-Key: a\r\nContent-Length: 10\r\n\r\n12".encode())
        return connection.recv(1000)


def test_a_head_that_is_slow_or_never_ends_costs_its_connection(servers: Servers) -> None:
    with served(servers, http={"body_timeout_s": 0.5}) as door:
        door.post("order-7")
        for head in (b"", b"GET / HTTP/1.1\r\nHost: a\r\nX: "):
            with socket.create_connection(door.address, timeout=10) as connection:
                connection.sendall(head)
                assert connection.recv(100) == b""
        with socket.create_connection(door.address, timeout=10) as connection:
            connection.sendall(b"GET /live HTTP/1.1\r\nHost: a\r\n\r\n")
            assert connection.recv(1000).startswith(b"HTTP/1.1 200")
            # The next head of a connection as well.
            connection.sendall(b"GET /live HTTP/1.1\r\nX: ")
            assert connection.recv(100) == b""


def test_a_head_that_is_too_long_is_not_kept(front: Served) -> None:
    with socket.create_connection(front.address, timeout=10) as connection:
        answer = b""
        # It may close before all of it was sent.
        with suppress(ConnectionError):
            connection.sendall(b"GET /live HTTP/1.1\r\nHost: a\r\n")
            connection.sendall(b"X: 1\r\n" * 200_000 + b"\r\n")
            answer = connection.recv(100)
    assert answer == b""
    # A long body is no long head.
    assert front.post(uuid.uuid4().hex, body=b'"' + b"x" * 200_000 + b'"').status_code == 202


def test_a_long_body_that_is_pipelined_is_answered(front: Served) -> None:
    key = uuid.uuid4().hex
    body = b'"' + b"x" * 200_000 + b'"'
    post = f"POST /v1/{front.topic} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    length = f"Idempotency-Key: {key}\r\nContent-Length: {len(body)}\r\n\r\n"
    get = b"GET /live HTTP/1.1\r\nHost: a\r\n\r\n"
    with socket.create_connection(front.address, timeout=10) as connection:
        connection.sendall(get + f"{post}{length}".encode() + body[:10])
        # The first answer comes while the second body is on its way.
        answers = connection.recv(1000)
        connection.sendall(body[10:] + get)
        while answers.count(b"HTTP/1.1 ") < 3 and (part := connection.recv(10_000)):
            answers += part
    assert [one[:3] for one in answers.split(b"HTTP/1.1 ")[1:]] == [b"200", b"202", b"200"]


def test_what_redis_has_forgotten_is_not_said_to_be_nowhere(servers: Servers) -> None:
    topic = name_of_topic()
    create_topics(servers, topic)
    kafka = {"bootstrap_servers": servers.kafka, "group": f"group-{uuid.uuid4().hex}"}
    checked = {"topics": {topic: {"model": f"{__name__}:Stricter"}}}
    with served(servers, kafka=kafka, http={"topics": {topic: {}}}) as door:
        page = door.post("order-7").headers["Location"]
        redis = door.worker.store.redis
        redis.delete(*redis.keys(f"onceward:{kafka['group']}:*"))
        # Its record is in Kafka, and a worker may yet read it.
        assert _kind(door.http.get(page)) == (503, "unavailable")
        resent = door.http.post(f"{page}/resend", headers={"If-Match": '"x"'})
        assert _kind(resent) == (503, "unavailable")
        # Nobody ever asked for this one here.
        other = page.replace(request_id_of("", "order-7"), request_id_of("", "order-8"))
        assert _kind(door.http.get(other)) == (503, "unavailable")
        with served(servers, kafka=kafka, http=checked) as stricter:
            assert _kind(stricter.post("order-7")) == (503, "unknown")


def test_what_waits_in_an_outbox_is_not_refused_by_a_door_with_a_stricter_model(
    servers: Servers, refusing: str, outbox_url: str
) -> None:
    topic, group = name_of_topic(), f"group-{uuid.uuid4().hex}"
    create_topics(servers, topic)
    both: dict[str, Any] = {"outbox": {"url": outbox_url}}
    away = {"bootstrap_servers": refusing, "group": group}
    nowhere = {"redis": {"url": f"redis://{refusing}/0"}, "kafka": away}
    http = {"outbox": True, "topics": {topic: {}}}
    # Neither Kafka nor Redis is there: the row alone has it.
    with served(servers, **both, **nowhere, http=http, client={"send_timeout_s": 2}) as door:
        assert door.post("order-7").status_code == 202
    kafka = {"bootstrap_servers": servers.kafka, "group": group}
    checked = {"outbox": True, "topics": {topic: {"model": f"{__name__}:Stricter"}}}
    with served(servers, **both, kafka=kafka, http=checked) as stricter:
        assert _kind(stricter.post("order-7")) == (503, "unknown")
        # Of another one the outbox knows that it has none.
        assert _kind(stricter.post("order-8")) == (422, "invalid-value")


class Stricter(BaseModel):
    """The model of a handler that was deployed after requests were accepted."""

    amount: int
    currency: str


def test_a_repeat_is_no_fault_of_a_model_that_came_later(servers: Servers) -> None:
    kafka = {"bootstrap_servers": servers.kafka, "group": f"group-{uuid.uuid4().hex}"}
    topic = name_of_topic()
    create_topics(servers, topic)
    with served(servers, kafka=kafka, http={"topics": {topic: {}}}) as door:
        first = door.post("order-7")
        assert first.status_code == 202
        door.worker.tell(first.json()["request_id"], State.RUNNING)
    checked = {"topics": {topic: {"model": f"{__name__}:Stricter"}}}
    with served(servers, kafka=kafka, http=checked) as door:
        again = door.post("order-7")
        assert (again.status_code, again.headers["Idempotent-Replayed"]) == (202, "true")
        assert again.json()["state"] == "RUNNING"
        assert _kind(door.post("order-8")) == (422, "invalid-value")
        assert _kind(door.post("order-7", body=b'{"amount":6}')) == (422, "invalid-value")
        valid = b'{"amount":5,"currency":"EUR"}'
        assert _kind(door.post("order-7", body=valid)) == (422, "other-payload")
        assert len(door.records()) == 1


ASKED, MAY_END = threading.Event(), threading.Event()


class Slow(BaseModel):
    """A model with a validator that asks somebody else."""

    amount: int

    @field_validator("amount")
    @classmethod
    def ask(cls, value: int) -> int:
        """Take as long as the test likes."""
        ASKED.set()
        assert MAY_END.wait(LIMIT_S)
        return value


def test_a_validator_that_takes_long_holds_up_nobody_else(
    servers: Servers, at_once: AtOnce
) -> None:
    topic = name_of_topic()
    create_topics(servers, topic)
    checked = {"topics": {topic: {"model": f"{__name__}:Slow"}}}
    with served(servers, http=checked, client={"send_timeout_s": 2}) as door:
        waiting = [at_once(door.post, f"order-{n}") for n in range(6)]
        assert ASKED.wait(LIMIT_S)
        assert door.http.get("/live").status_code == 200
        assert not any(one.done() for one in waiting)
        # Nobody waits longer than for a send, and nothing was sent.
        assert {_kind(one.result()) for one in waiting} == {(503, "unknown")}
        assert door.worker.traces() == []
        ready = door.http.get("/ready")
        assert (ready.status_code, "a validator hangs" in ready.text) == (503, True)
        MAY_END.set()
        eventually(lambda: door.http.get("/ready").status_code == 200)
        assert door.post("order-0").status_code == 202


def test_metrics_count_answers(front: Served, key: str) -> None:
    front.post(key)
    shown = front.http.get("/metrics").text
    assert 'onceward_http_answers_total{page="submit",status="202"}' in shown
    assert front.http.get("/live").text == "live\n"


def test_pages_of_the_origins_that_are_set_may_call_and_read_and_others_may_not(
    servers: Servers, key: str
) -> None:
    shop, other = "https://shop.example", "https://other.example"
    asks = {"Access-Control-Request-Method": "POST"}
    asks["Access-Control-Request-Headers"] = "idempotency-key, content-type, if-match, prefer"
    with served(servers, http={"cors_origins": [shop]}) as door:
        create_topics(servers, door.topic)
        page = f"/v1/{door.topic}"
        allowed = door.http.options(page, headers=asks | {"Origin": shop})
        assert (allowed.status_code, allowed.headers["Access-Control-Allow-Origin"]) == (200, shop)
        refused = door.http.options(page, headers=asks | {"Origin": other})
        assert refused.status_code == 400
        assert "Access-Control-Allow-Origin" not in refused.headers
        accepted = door.post(key, Origin=shop)
        shown = accepted.headers["Access-Control-Expose-Headers"].split(", ")
        assert {"ETag", "Location", "Retry-After"} <= set(shown)
        assert "Access-Control-Allow-Credentials" not in accepted.headers
        assert "Access-Control-Allow-Origin" not in door.post(key, Origin=other).headers
    with served(servers) as door:
        assert door.http.options(page, headers=asks | {"Origin": shop}).status_code == 405
