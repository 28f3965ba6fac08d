"""No bytes of an HTTP caller end the front door, cost the next caller, or are an error of ours."""

from __future__ import annotations

import base64
import json
import socket
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm

from feedback.settings.settings import load
from producer_client.http.authentication import CallerRecognition, authentication_of
from producer_client.http.callers import Caller, NotAuthenticated
from producer_client.http.door import HttpOrder, TopicOffer, is_among
from producer_client.http.ids import request_id_of
from producer_client.http.keys import KeyFile
from producer_client.http.problems import Problem
from producer_client.http.read_tokens import ReadTokens
from tests.fuzz.exchange import exchanged
from tests.fuzz.test_boundaries import BYTES, DEEP, JSON, NUMBERS, TEXTS, fuzzed
from tests.producer_client.http.conftest import Served, create_topics, name_of_topic, served
from tests.stack import Servers

# Of a processor, whatever else runs there.
ROOM_S = 1.0
ANSWER_S = 15.0
NOBODY = Caller("")
TOPICS = {"payments": {}, "free": {"key": "optional", "content_types": ["text/plain"]}}
SCHEMA = {"type": "object", "properties": {"amount": {"type": "integer"}}}
# As HTTP libraries give them: Latin-1, several of one name joined by newlines.
HEADER_TEXT = (
    BYTES.map(lambda one: one.decode("latin-1"))
    | NUMBERS.map(lambda one: one.decode("latin-1"))
    | st.sampled_from(
        [
            '"a"',
            '"a";b="c"',
            "a",
            "wait=5",
            "respond-async, wait = 9",
            "*",
            'W/"a", "b"',
            "\n" * 500,
        ]
    )
    | st.lists(
        st.sampled_from(['"', "\\", ";", "=", "a", " ", ",", "\n", "wait"]), max_size=40
    ).map("".join)
)
CONTENT_TYPES = st.sampled_from(
    ["application/json", "Application/JSON ; charset=x", "text/plain", "", "a/b"]
)
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "content-type": CONTENT_TYPES | HEADER_TEXT,
        **dict.fromkeys(
            ["content-length", "idempotency-key", "onceward-key", "prefer"], HEADER_TEXT
        ),
    },
)


@lru_cache
def _offer(schema: Path) -> TopicOffer:
    topics: dict[str, Any] = {**TOPICS, "checked": {"key": "optional", "schema": str(schema)}}
    section = load(None, http={"topics": topics, "max_body_bytes": 10 * DEEP}).http
    return TopicOffer(section, max_request_bytes=10 * DEEP)


@pytest.fixture(scope="module")
def offer(tmp_path_factory: pytest.TempPathFactory) -> TopicOffer:
    schema = tmp_path_factory.mktemp("schema") / "payment.json"
    schema.write_text(json.dumps(SCHEMA))
    return _offer(schema)


@fuzzed
@given(
    st.sampled_from([*TOPICS, "checked", "none"]),
    HEADERS,
    TEXTS | JSON.map(lambda one: json.dumps(one).encode()),
)
@example("payments", {"content-type": "application/json", "content-length": "9" * 5000}, b"1")
@example("checked", {"content-type": "application/json"}, b"[" * DEEP)
@example("checked", {"content-type": "application/json", "prefer": "\n" * 60_000}, b"{}")
def test_headers_and_body_of_a_submission(
    offer: TopicOffer, topic: str, headers: dict[str, str], body: bytes
) -> None:
    began_s = time.thread_time()
    found = offer.order_of(topic, NOBODY, headers, body)
    assert time.thread_time() - began_s < ROOM_S
    if isinstance(found, HttpOrder):
        assert found.request_id.isascii() and len(found.request_id) <= 128
        assert 1 <= len(found.key) <= 255 and found.key.isascii()
        assert found.wait_s is None or 0 <= found.wait_s <= 30
    else:
        assert isinstance(found, Problem) and 400 <= found.answer().status < 500
    is_among('"a"', headers.get("prefer", ""))


@pytest.fixture(scope="module")
def recognition(tmp_path_factory: pytest.TempPathFactory) -> CallerRecognition:
    """Return all ways to recognise callers at once."""
    folder = tmp_path_factory.mktemp("callers")
    KeyFile(folder / "keys.json").create("shop", submit=None, read=None)
    public = ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1()).public_key(), as_dict=True)
    (folder / "jwks.json").write_text(json.dumps({"keys": [{**public, "kid": "one"}]}))
    section = load(
        None,
        http={
            "keys_file": str(folder / "keys.json"),
            "jwks": str(folder / "jwks.json"),
            "jwt_issuer": "https://id.example",
            "jwt_audience": "door",
            "proxy_addresses": ["10.0.0.0/8"],
        },
    ).http
    found = authentication_of(section)
    assert isinstance(found, CallerRecognition)
    return found


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


HEADS = st.dictionaries(
    st.sampled_from(["alg", "kid", "typ", "crit", "b64", "jwk", "zip"]),
    JSON | st.sampled_from(["ES256", "RS256", "none", "HS256", "one"]),
).map(lambda one: json.dumps(one).encode())
TOKENS = st.lists((HEADS | TEXTS).map(_base64), min_size=1, max_size=4).map(".".join)
CREDENTIALS = st.builds(
    lambda scheme, blank, text: scheme + blank + text,
    st.sampled_from(["Bearer", "bearer", "Basic", ""]),
    st.sampled_from([" ", "  ", "\t", "\n"]),
    TOKENS | HEADER_TEXT | HEADER_TEXT.map(lambda one: "onceward_" + one),
)


@fuzzed
@given(
    st.none() | CREDENTIALS,
    st.none() | HEADER_TEXT,
    st.sampled_from(["10.1.2.3", "::ffff:10.1.2.3", "192.0.2.1", "", "fe80::1%eth0"]) | HEADER_TEXT,
)
@example("Bearer " + _base64(b'{"alg":' + b"[" * 5000) + ".e30.eA", None, "")
def test_credentials_of_a_caller(
    recognition: CallerRecognition, authorization: str | None, named: str | None, address: str
) -> None:
    given = {"authorization": authorization, "x-forwarded-user": named}
    headers = {name: text for name, text in given.items() if text is not None}
    try:
        found = recognition.caller(headers, address)
    except NotAuthenticated as error:
        assert error.challenge.startswith("Bearer")
        return
    # Nobody signs here, and nobody has the key: only the proxy names a caller.
    assert found.name == f"user:{found.name[5:]}" and named is not None
    assert found.name.isprintable()


SECRET = ReadTokens(b"s" * 32, group="g")
ISSUED = SECRET.issue("order-7", 0)


@fuzzed
@given(
    HEADER_TEXT
    | st.text()
    | st.builds(
        lambda at, text: ISSUED[:at] + text + ISSUED[at + 1 :],
        st.integers(0, len(ISSUED)),
        st.text(max_size=2),
    )
)
def test_a_read_token(token: str) -> None:
    assert SECRET.opens(token, 1) == ("order-7" if token == ISSUED else None)


# A real door on real servers -----------------------------------------------------------------

# The ids of a caller without a name: one of ours by its form, and one that only begins so.
OWNER = request_id_of("", "").partition("-")[0]
IDS = st.sampled_from([f"{OWNER}-{'a' * 40}", f"{OWNER}-{'%C3%A9' * 40}", f"{OWNER}-{'%00' * 40}"])
PLACES = st.builds(
    "/v1/requests/{}{}{}".format,
    IDS | st.sampled_from(["x", "%ff", "..", "%2e%2e%2f", "a" * 5000]),
    st.sampled_from(["", "/", "/events", "/resend"]),
    st.sampled_from(
        ["", "?wait=0", "?wait=" + "9" * 5000, "?token=", "?token=%ff.%00", "?wait=%D9%A1"]
    ),
) | st.sampled_from(
    [
        "/v1/{topic}",
        "/v1/none",
        "/openapi.json",
        "/openapi.html",
        "/live",
        "/ready",
        "/metrics",
        "*",
    ]
)
LINES = st.sampled_from(
    [
        b"Host: 127.0.0.1",
        b"Content-Type: application/json",
        b'Idempotency-Key: "a"',
        b"Idempotency-Key: a, b",
        b"Onceward-Key: \xff\xfe",
        b"Onceward-Key:",
        b"Prefer: wait=0",
        b'If-None-Match: W/"a", *',
        b"If-Match: *",
        b"Last-Event-ID: \xff",
        b"Content-Length: 2",
        b"Content-Length: -1",
        b"Content-Length: " + b"9" * 5000,
        b"Transfer-Encoding: chunked",
        b"Transfer-Encoding: chunked, identity",
        b"Expect: 100-continue",
        b"Upgrade: websocket",
        b"Authorization: Bearer \xc3\xa9",
        b": ",
        b" folded",
        b"X-Name: \xff",
    ]
) | st.binary(max_size=20)
SENT = st.builds(
    lambda method, place, lines, end, body: (
        method
        + b" "
        + place
        + b" HTTP/1.1\r\n"
        + b"".join(one + b"\r\n" for one in lines)
        + end
        + body
    ),
    st.sampled_from([b"GET", b"POST", b"HEAD", b"OPTIONS", b"PRI", b"\x16\x03\x01"]),
    PLACES.map(str.encode) | st.binary(max_size=10),
    st.lists(LINES, max_size=8),
    st.sampled_from([b"\r\n", b"\r\n", b""]),
    st.sampled_from([b"", b"{}", b"2\r\n{}\r\n0\r\n\r\n", b"fffffffffffffffff\r\n"]) | TEXTS,
)
PROBE = b"GET /live HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
MANY = (
    b'POST /v1/{topic} HTTP/1.1\r\nContent-Type: application/json\r\nIdempotency-Key: "a"\r\n'
    b"Content-Length: 2\r\n%s\r\n{}"
)


@pytest.fixture(scope="module")
def front(servers: Servers) -> Iterator[Served]:
    name = name_of_topic()
    create_topics(servers, name)
    with served(servers, http={"topics": [name], "body_timeout_s": 2.0, "heartbeat_s": 0.1}) as one:
        yield one


def _answered(front: Served, sent: bytes) -> bytes:
    """Return all that it answers, as far as an answer of events has an end."""
    with socket.create_connection(front.address, timeout=ANSWER_S) as line:
        return exchanged(line, [sent])


@settings(parent=fuzzed, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sent=SENT)
@example(sent=MANY % (b"Prefer:\r\n" * 7_000))
@example(sent=MANY % (b"Prefer: a\r\n" * 25_000))
@example(sent=b"GET /v1/requests/%s-%s HTTP/1.1\r\n\r\n" % (OWNER.encode(), b"%C3%A9" * 40))
def test_any_bytes_are_answered_without_an_error_of_ours_and_so_is_the_next_probe(
    front: Served, sent: bytes
) -> None:
    answer = _answered(front, sent.replace(b"{topic}", front.topic.encode()))
    for begin in answer.split(b"HTTP/1.1 ")[1:]:
        assert begin[:3] == b"501" or begin[:1] in b"1234", answer
    assert _answered(front, PROBE).endswith(b"live\n")
