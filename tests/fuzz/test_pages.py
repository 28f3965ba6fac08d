"""No bytes of a client cost a probe its answer: pages on a real server, asked with anything."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from http import HTTPStatus
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from feedback.clock import monotonic_s
from feedback.web.page_server import CLIENT_LIMIT_S, HEAD_LIMIT_BYTES, PageAnswer, PageServer
from tests.fuzz.exchange import exchanged
from tests.fuzz.test_boundaries import fuzzed

HOST = "127.0.0.1"
PATHS = ("/live", "/ready", "/metrics")
PROBE = b"GET /live HTTP/1.0\r\n\r\n"
# A request may take its whole time, and then its answer is written.
LIMIT_S = CLIENT_LIMIT_S + 3
LINES = st.builds(
    lambda method, path, version, end: method + b" " + path + version + end,
    st.sampled_from([b"GET", b"HEAD", b"POST", b"PRI", b"get", b"", b"\x16\x03\x01"]),
    st.sampled_from(
        [
            b"/live",
            b"/ready",
            b"/metrics",
            b"/ready?x",
            b"//live",
            b"/" + b"a" * 70_000,
            b"*",
            b"http://[",
        ]
    )
    | st.binary(max_size=20),
    st.sampled_from([b"", b" ", b" HTTP/1.1", b" HTTP/0.9", b" HTTP/2.0", b" HTTP/9" + b"9" * 5000])
    | st.binary(max_size=12),
    st.sampled_from([b"\r\n", b"\n", b"\r"]),
)
HEADERS = st.sampled_from(
    [
        b"Expect: 100-continue\r\n",
        b"Connection: keep-alive\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: " + b"9" * 5000 + b"\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b": \r\n",
        b" folded\r\n",
        b"X" * HEAD_LIMIT_BYTES,
        b"X: a\r\n" * 101,
        b"\r\n",
    ]
) | st.binary(max_size=20)
SENT = st.builds(
    lambda line, headers, end: line + b"".join(headers) + end,
    LINES | st.binary(max_size=60),
    st.lists(HEADERS, max_size=4),
    st.sampled_from([b"\r\n\r\n", b"\n\n", b""]),
)


def live() -> PageAnswer:
    return PageAnswer(HTTPStatus.OK, "text/plain", b"live\n")


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Yield the port of a server with the pages of a worker."""
    server = PageServer(host=HOST, port=0, pages=dict.fromkeys(PATHS, live))
    try:
        yield server.port
    finally:
        server.close()


def answered(port: int, parts: list[bytes]) -> bytes:
    """Return all that the server answers to these parts, whose end is that of the request."""
    with socket.create_connection((HOST, port), timeout=LIMIT_S) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return exchanged(line, parts)


@settings(parent=fuzzed, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sent=SENT, cuts=st.lists(st.integers(0, 200), max_size=4))
@example(sent=PROBE, cuts=[1, 5])
@example(sent=b"GET /live HTTP/1.1\r\nExpect: 100-continue\r\n\r\n", cuts=[])
def test_any_bytes_split_anywhere_are_answered_and_so_is_the_next_probe(
    port: int, sent: bytes, cuts: list[int]
) -> None:
    places = [0, *sorted(cuts), len(sent)]
    parts = [sent[begin:end] for begin, end in pairwise(places)]
    begun_s = monotonic_s()
    answer = answered(port, parts)
    assert monotonic_s() - begun_s < LIMIT_S
    if answer.startswith(b"HTTP/"):
        # Of 5xx there are two that mean the client: its method, and its version.
        assert answer[9:12] in (b"100", b"501", b"505") or answer[9:10] in (b"2", b"4")
    assert answered(port, [PROBE]).endswith(b"live\n")
