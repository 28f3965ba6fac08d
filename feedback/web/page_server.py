"""Pages over HTTP: one thread for each client, few clients at a time; none holds up another.

A client has one deadline for its whole request, however it trickles it, and a bound for its size;
`page_clients` chooses the client that gives way to a newcomer.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from socketserver import TCPServer
from typing import Any, NamedTuple, cast

from feedback.errors import NotAvailable
from feedback.logs import EventLog
from feedback.web.page_clients import PageClients

log = EventLog("onceward.http")

# For a whole request, and again for each write of its answer.
CLIENT_LIMIT_S = 5.0
MAX_CLIENTS = 16
# The request line and all headers; a probe or a Prometheus sends less than 1 KiB.
HEAD_LIMIT_BYTES = 8192
STOP_CHECK_S = 0.1
READING = ("GET", "HEAD")


class PageAnswer(NamedTuple):
    """The answer of a page."""

    status: HTTPStatus
    content_type: str
    body: bytes


Pages = Mapping[str, Callable[[], PageAnswer]]


class PageServer:
    """Serves pages by their path as soon as it is constructed.

    Args:
        host: the address to listen on.
        port: the port; 0 takes any free one.
        pages: by path; each call runs in a thread of its own.
        section: the section of the settings that holds host and port, for the error.

    Raises:
        NotAvailable: the address or the port cannot be listened on.
    """

    def __init__(self, *, host: str, port: int, pages: Pages, section: str = "worker") -> None:
        try:
            self._server = _Server(host, port, pages)
        except OSError as error:
            raise NotAvailable(
                f"[{section}] http_port: nobody can listen on {host}:{port} "
                f"({error.strerror or error}): choose another port or http_host, "
                "or end what has it"
            ) from error
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            args=(STOP_CHECK_S,),
            name="onceward-http",
            daemon=True,
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening; do not wait for clients that are being answered."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    # The standard 5 would keep the sixth of many probes waiting for a second.
    request_queue_size = 64

    def __init__(self, host: str, port: int, pages: Pages) -> None:
        where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family = where[0][0]
        self.pages = pages
        self.clients = PageClients(limit=MAX_CLIENTS, limit_s=CLIENT_LIMIT_S)
        super().__init__((host, port), _Client)

    def server_bind(self) -> None:
        """Bind without asking the DNS for our own name, as HTTPServer does."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread."""
        self.clients.enter(request, client_address[0])
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one client."""
        with self.clients.answering(request):
            super().process_request_thread(request, client_address)

    def service_actions(self) -> None:
        """Disconnect late clients; called every `STOP_CHECK_S`, and after each newcomer."""
        self.clients.end_late()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log the failure of a page; a client that disconnected is no failure."""
        if not isinstance(sys.exc_info()[1], OSError):
            log.exception("page.failed")


class _TooLarge(HTTPException):
    """A request is longer than `HEAD_LIMIT_BYTES`; as an HTTPException in a header it is a 431."""


class _Head:
    """The lines of a request, as far as its bound.

    Args:
        sent: the bytes of the client.
    """

    def __init__(self, sent: BufferedIOBase) -> None:
        self._sent = sent
        self._left = HEAD_LIMIT_BYTES

    def readline(self, size: int) -> bytes:
        """Return the next line.

        Raises:
            _TooLarge: it ends beyond the bound.
        """
        line = self._sent.readline(min(size, self._left + 1))
        self._left -= len(line)
        if self._left < 0:
            raise _TooLarge
        return line

    def close(self) -> None:
        """Close the client's side."""
        self._sent.close()


class _Client(BaseHTTPRequestHandler):
    server: _Server
    timeout = CLIENT_LIMIT_S
    # Of a request whose first line is too long to tell.
    command = request_version = requestline = ""
    error_content_type = "text/plain; charset=utf-8"
    error_message_format = "%(code)d %(message)s: %(explain)s\n"

    def setup(self) -> None:
        """Bound the request."""
        super().setup()
        self.rfile = cast("Any", _Head(self.rfile))

    def handle_one_request(self) -> None:
        """Refuse a request line that is too long; the superclass refuses such headers."""
        try:
            super().handle_one_request()
        except _TooLarge:
            self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def parse_request(self) -> bool:
        """Note the end of the request's arrival."""
        is_valid = super().parse_request()
        self.server.clients.has_read(self.connection)
        return is_valid

    def do_GET(self) -> None:
        """Answer with the page of this path."""
        page = self.server.pages.get(self.path.partition("?")[0])
        if page is None:
            self.send_error(HTTPStatus.NOT_FOUND, explain=" ".join(self.server.pages))
            return
        answer = page()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        """Refuse: pages are read only."""
        self.send_response(HTTPStatus.METHOD_NOT_ALLOWED)
        self.send_header("Allow", ", ".join(READING))
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_POST

    def version_string(self) -> str:
        """Return our name, without our version or Python's."""
        return "onceward"

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: probes come every few seconds."""
