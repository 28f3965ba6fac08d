"""The counterparty: `POST /authData` answers after 200 ms, or later when `additionalData` is "0".

    python -m tests.bench.modes.counterparty SLOW_S USUAL_S

A process of its own: the first line of its output is its port, and the end of its input ends it.
It must be no bottleneck, so it reads no more of a request than it needs, keeps connections open,
and takes no thread and no task for a call: a timer holds each answer back. `GET /count` says how
many calls were answered, `GET /calls` gives each of them (`calls.Call`).
"""

from __future__ import annotations

import asyncio
import json
import re
import selectors
import sys
from typing import cast

from onceward.servers.ports import HOST

SLOW_DATA = "0"

_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_HEAD = "HTTP/1.1 {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"


class Desk:
    """Knows how long a call takes, and keeps when each came and was answered.

    Args:
        slow_s, usual_s: how long a call takes, in seconds.
    """

    def __init__(self, *, slow_s: float, usual_s: float) -> None:
        self._slow_s = slow_s
        self._usual_s = usual_s
        self.calls: list[tuple[str, float, float, float]] = []

    def takes_s(self, operation: dict[str, str]) -> float:
        """Return how long this operation takes, in seconds."""
        return self._slow_s if operation["additionalData"] == SLOW_DATA else self._usual_s


class Connection(asyncio.Protocol):
    """One connection: its requests come one after the other, and so do the answers."""

    def __init__(self, desk: Desk, loop: asyncio.AbstractEventLoop) -> None:
        self._desk = desk
        self._loop = loop
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep where answers go."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Take what came, and serve the request when it is whole."""
        came_s = self._loop.time()
        self._received += data
        head, end, rest = self._received.partition(_END_OF_HEAD)
        if not end:
            return
        length = _LENGTH.search(head + end)
        if len(rest) < (int(length[1]) if length else 0):
            return
        self._received = b""
        self._serve(head.split(b" ", 2)[:2], rest, came_s)

    def _serve(self, asked: list[bytes], body: bytes, came_s: float) -> None:
        if asked == [b"POST", b"/authData"]:
            operation = json.loads(body)
            due_s = came_s + self._desk.takes_s(operation)
            self._loop.call_at(due_s, self._authorise, operation, came_s)
        elif asked == [b"GET", b"/count"]:
            self._answer("200 OK", len(self._desk.calls))
        elif asked == [b"GET", b"/calls"]:
            self._answer("200 OK", self._desk.calls)
        else:
            self._answer("404 Not Found", {"error": "POST /authData, GET /count, GET /calls"})

    def _authorise(self, operation: dict[str, str], came_s: float) -> None:
        name, takes_s = operation["operationId"], self._desk.takes_s(operation)
        self._desk.calls.append((name, came_s, self._loop.time(), takes_s))
        self._answer("200 OK", {"operationId": name, "authorised": True})

    def _answer(self, status: str, answer: object) -> None:
        body = json.dumps(answer).encode()
        # Without effect on a connection that is closed by now: its worker was killed.
        self._transport.write(_HEAD.format(status, len(body)).encode() + body)


async def _main(desk: Desk) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(sys.stdin, ended.set)
    server = await loop.create_server(lambda: Connection(desk, loop), HOST, 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await ended.wait()


def _precise_loop() -> asyncio.AbstractEventLoop:
    # epoll counts in whole milliseconds, and asyncio rounds up to them: 0.5 ms of each 200. select
    # counts in microseconds, and its limit of 1,024 connections is far.
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


if __name__ == "__main__":
    slow, usual = map(float, sys.argv[1:])
    with asyncio.Runner(loop_factory=_precise_loop) as runner:
        runner.run(_main(Desk(slow_s=slow, usual_s=usual)))
