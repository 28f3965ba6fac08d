"""Slow clients of the pages: their deadline, and the one that gives way."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from http import HTTPStatus

import pytest
import requests

from feedback.clock import monotonic_s
from feedback.web.page_clients import PageClient, slowest
from feedback.web.page_server import CLIENT_LIMIT_S, HEAD_LIMIT_BYTES, PageAnswer, PageServer
from tests.feedback.web.dripping import dripping

HOST = "127.0.0.1"
LIMIT_S = 60.0
PROBE_LIMIT_S = 1.0
WATCHED_S = 8.0


def live() -> PageAnswer:
    return PageAnswer(HTTPStatus.OK, "text/plain", b"live\n")


@pytest.fixture
def server() -> Iterator[PageServer]:
    made = PageServer(host=HOST, port=0, pages={"/live": live})
    try:
        yield made
    finally:
        made.close()


def is_open(line: socket.socket) -> bool:
    try:
        return line.recv(1) != b""
    except TimeoutError:
        return True


def client(address: str = "a", *, is_read: bool = False) -> PageClient:
    return PageClient(address, until_s=5.0, is_read=is_read)


def test_the_oldest_whose_request_has_not_arrived_gives_way() -> None:
    assert slowest({1: client(is_read=True), 2: client(), 3: client()}) == 2


def test_the_address_with_most_of_them_gives_way_before_an_older_one() -> None:
    assert slowest({1: client("probe"), 2: client("many"), 3: client("many")}) == 2


def test_where_all_wait_for_their_page_the_oldest_gives_way() -> None:
    assert slowest({1: client(is_read=True), 2: client(is_read=True)}) == 1


@pytest.mark.long
def test_forty_clients_that_drip_cost_no_probe_its_second(server: PageServer) -> None:
    end_s = monotonic_s() + WATCHED_S
    with dripping(HOST, server.port, clients=40):
        while monotonic_s() < end_s:
            asked_s = monotonic_s()
            assert requests.get(f"http://{HOST}:{server.port}/live", timeout=LIMIT_S).ok
            assert monotonic_s() - asked_s < PROBE_LIMIT_S


def test_a_request_has_one_deadline_however_it_is_trickled(server: PageServer) -> None:
    with socket.create_connection((HOST, server.port), timeout=0.2) as line:
        begun_s = monotonic_s()
        line.sendall(b"GET /live HTTP/1.1\r\nX-Slow: ")
        while is_open(line):
            line.send(b"s")
        assert CLIENT_LIMIT_S - 1 < monotonic_s() - begun_s < CLIENT_LIMIT_S + 2


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * HEAD_LIMIT_BYTES + b" HTTP/1.1\r\n\r\n",
        b"GET /live HTTP/1.1\r\nX: " + b"a" * HEAD_LIMIT_BYTES + b"\r\n\r\n",
        b"GET /live HTTP/1.1\r\n" + b"X: a\r\n" * 101 + b"\r\n",
    ],
    ids=["line", "header", "count"],
)
def test_a_request_that_is_too_large_is_refused(server: PageServer, head: bytes) -> None:
    with socket.create_connection((HOST, server.port), timeout=LIMIT_S) as line:
        line.sendall(head)
        assert b" 431 " in line.recv(200)
