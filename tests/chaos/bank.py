"""The bank: it charges as often as it is asked, and remembers for which order, by which request.

A process of its own, which outlives workers, spoken to in lines over one connection for each
thread of a handler. What it has counted is what happened; nobody else has to be believed.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter, defaultdict
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any

from feedback.clock import monotonic_s
from tests.stack.ports import HOST


class Books:
    """What was charged and begun. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._charges: Counter[tuple[str, str]] = Counter()
        self._keys: set[str] = set()
        self._begins: list[tuple[str, int, float]] = []
        self._gates: defaultdict[str, threading.Event] = defaultdict(threading.Event)

    def begin(self, request_id: str, pid: int) -> None:
        """Note that a child has begun to run the request."""
        with self._lock:
            self._begins.append((request_id, pid, monotonic_s()))

    def charge(self, order: str, request_id: str) -> None:
        """Charge once more."""
        with self._lock:
            self._charges[order, request_id] += 1

    def charge_once(self, order: str, request_id: str, key: str) -> None:
        """Charge unless this idempotency key was charged before."""
        with self._lock:
            if key not in self._keys:
                self._keys.add(key)
                self._charges[order, request_id] += 1

    def gate(self, name: str) -> threading.Event:
        """Return the gate of this name; it is shut at first."""
        with self._lock:
            return self._gates[name]

    def account(self) -> dict[str, Any]:
        """Return everything, as JSON has it."""
        with self._lock:
            charges = [[*who, times] for who, times in self._charges.items()]
            return {"charges": charges, "begins": list(self._begins)}

    def begun(self) -> int:
        """Return how many runs were begun."""
        with self._lock:
            return len(self._begins)


class Bank(ThreadingTCPServer):
    """The bank's door on a loopback port; 0 takes a free one."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, port: int = 0) -> None:
        super().__init__((HOST, port), Desk)
        self.books = Books()


class Desk(StreamRequestHandler):
    """Serves one connection, line by line."""

    server: Bank
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


if __name__ == "__main__":
    Bank(int(sys.argv[1])).serve_forever()
