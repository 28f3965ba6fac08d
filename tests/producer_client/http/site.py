"""A shop's site: its pages, and the front door below the same origin, with faults in between."""

from __future__ import annotations

from contextlib import closing, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.documents import ROOT

PAGES = ROOT / "config/payment-form"
KINDS = {".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css"}
_LIMIT_S = 30


class Site(ThreadingHTTPServer):
    """Serves the form, and passes the rest on to a front door.

    Attributes:
        order: the name of the form's action.
        key: of all tabs; empty: each has its own.
        value: the expression of the form's module that is submitted.
        lost: of so many submissions the answer is lost; the front door has them.
        is_away: it takes no request of the form any more.
        answers: what it answers itself, by the beginning of "METHOD path".
        streams: the connections of the answers to GET that the browser still reads.
    """

    daemon_threads = True

    def __init__(self, door: tuple[str, int], topic: str) -> None:
        super().__init__(("127.0.0.1", 0), _Visitor)
        self.door = door
        self.topic = topic
        self.order = "order-7"
        self.value = "{ order: action, amount }"
        self.key = ""
        self.lost = 0
        self.is_away = False
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.submissions = 0
        self.streams: set[Any] = set()

    @property
    def url(self) -> str:
        """The address of the form, of this order."""
        return f"http://127.0.0.1:{self.server_port}/?{self.order}"

    def begin(self, order: str) -> None:
        """Be whole again, with another order."""
        self.order, self.lost, self.is_away, self.submissions = order, 0, False, 0
        self.key = ""
        self.answers.clear()

    def cut_streams(self) -> None:
        """Cut the streams that are open."""
        for one in list(self.streams):
            with suppress(OSError):  # the browser has closed it
                one.shutdown(2)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: connections break here on purpose."""


class _Visitor(BaseHTTPRequestHandler):
    server: Site
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        name = self.path.partition("?")[0].lstrip("/") or "index.html"
        page = PAGES / name
        if "/" in name or not page.is_file():
            self._pass_on()
            return
        content = page.read_text("utf-8").replace("/v1/payments", f"/v1/{self.server.topic}")
        # Tabs of one site may have orders of their own, by their address.
        order = self.path.partition("?")[2] or self.server.order
        given = f' data-key="{self.server.key}"' if self.server.key else ""
        content = content.replace('"order-7"', f'"{order}"{given}')
        content = content.replace("{ order: action, amount }", self.server.value)
        self._answer(HTTPStatus.OK, content.encode(), KINDS[page.suffix])

    def do_POST(self) -> None:
        self.server.submissions += 1
        self._pass_on()

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.close_connection = True
        if self.server.is_away and not self.path.endswith(".js"):
            return
        for begin, (status, answer) in self.server.answers.items():
            if f"{self.command} {self.path}".startswith(begin):
                self._answer(status, answer, "application/problem+json")
                return
        with closing(HTTPConnection(*self.server.door, timeout=_LIMIT_S)) as door:
            door.request(self.command, self.path, body, dict(self.headers))
            self._copy(door.getresponse())

    def _copy(self, answer: HTTPResponse) -> None:
        if self.command == "POST" and self.server.lost:
            self.server.lost -= 1
            # A connection that is closed without a word the browser itself tries again.
            self.send_response(answer.status)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(answer.read()[:10])
            return
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in ("transfer-encoding", "connection", "date"):
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command == "GET":
            self.server.streams.add(self.connection)
        try:
            while part := answer.read1(65536):
                self.wfile.write(part)
        finally:
            self.server.streams.discard(self.connection)

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None: ...
