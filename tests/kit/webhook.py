"""A webhook as a test needs it: it takes messages, refuses them, hangs, or answers for ever."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.eventually import eventually
from tests.kit.serving import serving

SECRET = "T000-B000-hunter2"
LIMIT_S = 60.0


class Hook(ThreadingHTTPServer):
    """Keeps what was posted.

    Attributes:
        answers: the status of each answer in turn, then 200; each would lead elsewhere, and
            asks to be left alone for an hour.
        received: path and body of all that came.
        posted: the messages that were answered by 200.
        hangs: answers nothing until it is set free.
        trickles: begins an answer that never ends.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.answers: list[int] = []
        self.received: list[tuple[str, bytes]] = []
        self.posted: list[dict[str, Any]] = []
        self.asked = 0
        self.hangs = False
        self.trickles = False
        self.free = threading.Event()

    @property
    def url(self) -> str:
        """Where to post."""
        return f"http://127.0.0.1:{self.server_port}/services/{SECRET}"

    @property
    def alerts(self) -> list[dict[str, Any]]:
        """All alerts that were posted, in order."""
        return [one for body in self.posted for one in body["onceward"]["alerts"]]

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """Return the alerts of a kind, waiting for one."""
        return eventually(
            lambda: [one for one in self.alerts if one["kind"] == kind],
            timeout_s=LIMIT_S,
            what=f"an alert of kind {kind}",
        )


class _Answer(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        """Keep what was posted and answer."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        hook = self.server
        hook.asked += 1
        hook.received.append((self.path, body))
        if hook.hangs:
            hook.free.wait()
            return
        status = hook.answers.pop(0) if hook.answers else 200
        if status == 200:
            hook.posted.append(json.loads(body))
        self.send_response(status)
        if hook.trickles:
            self.send_header("Content-Length", "1000000000")
            self.end_headers()
            hook.free.wait()
            return
        self.send_header("Location", "/elsewhere")
        self.send_header("Retry-After", "3600")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def open_hook() -> Iterator[Hook]:
    """Yield a webhook that listens."""
    hook = Hook()
    with serving(hook):
        try:
            yield hook
        finally:
            hook.free.set()
