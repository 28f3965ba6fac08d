"""The bank: `POST /charge` charges each time it is asked, `GET /account` says how often it did.

It is not idempotent on purpose, so that a second charge cannot hide. Run as a process of its own:
it outlives the workers that ask it.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition
from typing import Any

from tests.stack.ports import HOST

REQUEST_ID = "X-Request-Id"
USUAL_S = 0.02
SLOW_S = 1.0
SLOW_IN = 100
UNDER_WAY_LIMIT_S = 5.0


def delay_s(request_id: str) -> float:
    """Return how long the bank takes for a request: one in a hundred is slow, always the same."""
    drawn = int.from_bytes(sha256(request_id.encode()).digest()[:8], "big")
    return SLOW_S if drawn % SLOW_IN == 0 else USUAL_S


class Ledger:
    """How often each request was charged. Safe to share between threads."""

    def __init__(self) -> None:
        self._charges: Counter[str] = Counter()
        self._under_way = 0
        self._changed = Condition()

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Have `account` wait for the charge that is made in this block."""
        with self._changed:
            self._under_way += 1
        try:
            yield
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    def charge(self, request_id: str) -> int:
        """Charge once more; return how often this request has been charged by now."""
        with self._changed:
            self._charges[request_id] += 1
            return self._charges[request_id]

    def account(self, wait_s: float = UNDER_WAY_LIMIT_S) -> dict[str, int]:
        """Return the charges of each request, when none is under way.

        Raises:
            TimeoutError: some still were after `wait_s` seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._under_way == 0, wait_s):
                raise TimeoutError(f"{self._under_way} charges still under way after {wait_s:g} s")
            return dict(self._charges)


class Bank(ThreadingHTTPServer):
    """The bank's door on a loopback port; 0 takes a free one."""

    daemon_threads = True
    # The default of 5 lets connections wait a second when many ask at once.
    request_queue_size = 128

    def __init__(self, port: int = 0) -> None:
        super().__init__((HOST, port), Desk)
        self.ledger = Ledger()


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
        with self.server.ledger.under_way():
            time.sleep(delay_s(request_id))
            charges = self.server.ledger.charge(request_id)
        self._answer(200, {"request_id": request_id, "charges": charges})

    def do_GET(self) -> None:
        """Show the account."""
        if self.path == "/account":
            self._answer(200, self.server.ledger.account())
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


def account_of(address: str) -> dict[str, int]:
    """Return the account of the bank at `address`, host and port.

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
    Bank(int(sys.argv[1])).serve_forever()
