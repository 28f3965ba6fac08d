"""The pages over HTTP: what is asked wrongly, by whom, and how slowly, harms nobody else."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from http import HTTPStatus

import pytest
import requests

from feedback.errors import ExitCode, NotAvailable
from feedback.web.page_server import MAX_CLIENTS, PageAnswer, PageServer

HOST = "127.0.0.1"
LIMIT_S = 60.0


def page() -> PageAnswer:
    return PageAnswer(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", b"not yet\n")


def broken() -> PageAnswer:
    raise ZeroDivisionError


@pytest.fixture
def server() -> Iterator[PageServer]:
    """Yield a server of two pages, one of which fails."""
    made = PageServer(host=HOST, port=0, pages={"/page": page, "/broken": broken})
    try:
        yield made
    finally:
        made.close()


def ask(server: PageServer, path: str, method: str = "GET") -> requests.Response:
    return requests.request(method, f"http://{HOST}:{server.port}{path}", timeout=LIMIT_S)


def test_a_page_is_served_by_its_path_whatever_follows_it(server: PageServer) -> None:
    answer = ask(server, "/page?verbose=1")
    assert (answer.status_code, answer.text) == (503, "not yet\n")
    assert answer.headers["Content-Type"] == "text/plain"
    assert answer.headers["Cache-Control"] == "no-store"


def test_head_has_the_headers_and_no_body(server: PageServer) -> None:
    answer = ask(server, "/page", "HEAD")
    assert (answer.status_code, answer.content) == (503, b"")
    assert answer.headers["Content-Length"] == "8"


@pytest.mark.parametrize("path", ["/", "/page/", "/PAGE", "//"])
def test_there_are_no_other_pages(server: PageServer, path: str) -> None:
    answer = ask(server, path)
    assert answer.status_code == 404
    assert "/page" in answer.text


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_nothing_can_be_changed(server: PageServer, method: str) -> None:
    answer = ask(server, "/page", method)
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD")


def test_what_is_no_http_gets_an_answer_or_a_closed_line(server: PageServer) -> None:
    for noise in (
        b"\x00\xff\r\n\r\n",
        b"GET\r\n\r\n",
        b"A" * 70_000 + b"\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
    ):
        with socket.create_connection((HOST, server.port), timeout=LIMIT_S) as client:
            client.sendall(noise)
            with suppress(ConnectionResetError):
                assert b"200" not in client.recv(65_536)
    assert ask(server, "/page").status_code == 503


def test_a_page_that_fails_closes_the_line_and_leaves_the_rest(server: PageServer) -> None:
    with pytest.raises(requests.ConnectionError):
        ask(server, "/broken")
    assert ask(server, "/page").status_code == 503


def test_silent_clients_hold_up_neither_others_nor_the_end() -> None:
    server = PageServer(host=HOST, port=0, pages={"/page": page})
    with ExitStack() as silent:
        for _ in range(MAX_CLIENTS - 1):
            silent.enter_context(socket.create_connection((HOST, server.port)))
        assert ask(server, "/page").status_code == 503
        server.close()
        with pytest.raises(requests.ConnectionError):
            ask(server, "/page")


def test_clients_that_say_nothing_starve_nobody_and_the_oldest_is_hung_up_on(
    server: PageServer,
) -> None:
    with ExitStack() as silent:
        clients = [
            silent.enter_context(socket.create_connection((HOST, server.port), timeout=LIMIT_S))
            for _ in range(MAX_CLIENTS + 2)
        ]
        for _ in range(5):
            assert ask(server, "/page").status_code == 503
        assert clients[0].recv(1) == clients[1].recv(1) == b""


def test_a_port_that_is_taken_is_named_with_what_to_do(server: PageServer) -> None:
    with pytest.raises(
        NotAvailable, match=rf"http_port.*{HOST}:{server.port}.*another port"
    ) as told:
        PageServer(host=HOST, port=server.port, pages={})
    assert told.value.exit_code is ExitCode.NOT_AVAILABLE


def test_an_address_that_is_not_ours_is_named_too() -> None:
    with pytest.raises(NotAvailable, match=r"192\.0\.2\.1"):
        PageServer(host="192.0.2.1", port=0, pages={})
