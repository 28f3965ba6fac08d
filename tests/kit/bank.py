"""The bank: it charges as often as it is asked, and remembers for which order, by which request.

It is not idempotent on purpose, unless it is asked to be, so that a second charge cannot hide. A
process of its own, which outlives workers: what it has counted is what happened; nobody else has
to be believed. `python -m tests.kit.bank PORT` speaks HTTP, `POST /charge` and `GET /account`, as
users' counterparties do. With `--lines` it is spoken to in lines over connections that stay open
(see `banking`), which a load of thousands wants; it then knows who began, keys and gates as well.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any

from feedback.clock import monotonic_s
from onceward.servers.ports import HOST

REQUEST_ID = "X-Request-Id"
USUAL_S = 0.02
SLOW_S = 1.0
SLOW_IN = 100
UNDER_WAY_LIMIT_S = 5.0


def delay_s(request_id: str) -> float:
    """Return how long a charge over HTTP takes: one in a hundred is slow, always the same."""
    drawn = int.from_bytes(sha256(request_id.encode()).digest()[:8], "big")
    return SLOW_S if drawn % SLOW_IN == 0 else USUAL_S


class Books:
    """What was charged and begun. Safe to share between threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._under_way = 0
        self._charges: Counter[tuple[str, str]] = Counter()
        self._keys: set[str] = set()
        self._begins: list[tuple[str, int, float]] = []
        self._gates: defaultdict[str, threading.Event] = defaultdict(threading.Event)

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Have `settled` wait for the charge that is made in this block."""
        with self._changed:
            self._under_way += 1
        try:
            yield
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    def begin(self, request_id: str, pid: int) -> None:
        """Note that a child has begun to run the request."""
        with self._changed:
            self._begins.append((request_id, pid, monotonic_s()))

    def charge(self, order: str, request_id: str) -> int:
        """Charge once more; return how often this has been charged by now."""
        with self._changed:
            self._charges[order, request_id] += 1
            return self._charges[order, request_id]

    def charge_once(self, order: str, request_id: str, key: str) -> None:
        """Charge unless this idempotency key was charged before."""
        with self._changed:
            if key not in self._keys:
                self._keys.add(key)
                self._charges[order, request_id] += 1

    def gate(self, name: str) -> threading.Event:
        """Return the gate of this name; it is shut at first."""
        with self._changed:
            return self._gates[name]

    def begun(self) -> int:
        """Return how many runs were begun."""
        with self._changed:
            return len(self._begins)

    def account(self) -> dict[str, Any]:
        """Return everything, as JSON has it."""
        with self._changed:
            charges = [[*who, times] for who, times in self._charges.items()]
            return {"charges": charges, "begins": list(self._begins)}

    def settled(self, wait_s: float = UNDER_WAY_LIMIT_S) -> dict[str, int]:
        """Return the charges of each request, when none is under way.

        Raises:
            TimeoutError: some still were after `wait_s` seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._under_way == 0, wait_s):
                raise TimeoutError(f"{self._under_way} charges still under way after {wait_s:g} s")
            return {request_id: times for (_, request_id), times in self._charges.items()}


class LineBank(ThreadingTCPServer):
    """The bank's door for lines, on a loopback port; 0 takes a free one."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, port: int = 0) -> None:
        super().__init__((HOST, port), LineDesk)
        self.books = Books()


class LineDesk(StreamRequestHandler):
    """Serves one connection, line by line."""

    server: LineBank
    disable_nagle_algorithm = True

    def handle(self) -> None:
        """Do what each line says; whoever is gone has been charged all the same."""
        try:
            for line in self.rfile:
                answer = self._do(line.decode().split())
                if answer is not None:
                    self.wfile.write(answer.encode() + b"\n")
        except (BrokenPipeError, ConnectionResetError):
            return  # a killed worker does not listen

    def _do(self, words: list[str]) -> str | None:
        books = self.server.books
        match words:
            case ["begin", request_id, pid]:
                books.begin(request_id, int(pid))
                return None
            case ["charge", order, request_id]:
                books.charge(order, request_id)
            case ["charge-once", order, request_id, key]:
                books.charge_once(order, request_id, key)
            case ["wait", gate]:
                books.gate(gate).wait()
            case ["open", gate]:
                books.gate(gate).set()
            case ["begun"]:
                return str(books.begun())
            case ["account"]:
                return json.dumps(books.account())
            case _:
                return f"not understood: {words[:1]}"
        return "ok"


class Bank(ThreadingHTTPServer):
    """The bank's door for HTTP, on a loopback port; 0 takes a free one."""

    daemon_threads = True
    # The default of 5 lets connections wait a second when many ask at once.
    request_queue_size = 128

    def __init__(self, port: int = 0) -> None:
        super().__init__((HOST, port), Desk)
        self.books = Books()


class Desk(BaseHTTPRequestHandler):
    """Serves one connection."""

    server: Bank

    def do_POST(self) -> None:
        """Charge, then answer: who is gone by then has been charged all the same."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        request_id = self.headers.get(REQUEST_ID)
        if self.path != "/charge" or not request_id:
            self._answer(400, {"error": f"POST /charge with the header {REQUEST_ID}"})
            return
        with self.server.books.under_way():
            time.sleep(delay_s(request_id))
            charges = self.server.books.charge(request_id, request_id)
        self._answer(200, {"request_id": request_id, "charges": charges})

    def do_GET(self) -> None:
        """Show the account."""
        if self.path == "/account":
            self._answer(200, self.server.books.settled())
        else:
            self._answer(404, {"error": "GET /account"})

    def _answer(self, code: int, answer: Mapping[str, Any]) -> None:
        body = json.dumps(answer).encode()
        with suppress(BrokenPipeError, ConnectionResetError):  # a killed worker does not listen
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the account says it all."""


def charges_at(address: str) -> dict[str, int]:
    """Return how often the bank at `address`, host and port, charged each request, over HTTP.

    Raises:
        OSError, HTTPException: it does not answer.
    """
    # Not by `requests`: a proxy in the environment is not for loopback.
    connection = HTTPConnection(address, timeout=2 * UNDER_WAY_LIMIT_S)
    try:
        connection.request("GET", "/account")
        account: dict[str, int] = json.load(connection.getresponse())
        return account
    finally:
        connection.close()


if __name__ == "__main__":
    *asked, at = sys.argv[1:]
    (LineBank if asked == ["--lines"] else Bank)(int(at)).serve_forever()
