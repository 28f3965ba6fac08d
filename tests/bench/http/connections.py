"""Connections as cheap as they can be: one question at a time, or one event stream."""

from __future__ import annotations

import asyncio
import json
import time
from typing import NamedTuple, Self

Address = tuple[str, int]


class Reply(NamedTuple):
    """An answer; `head` is its first line and its headers."""

    status: int
    head: bytes
    body: bytes

    def header(self, name: bytes) -> bytes:
        """Return the value of a header, empty without one."""
        return _header(self.head, name)


class Connection(asyncio.Protocol):
    """Asks one question at a time."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._reply: asyncio.Future[Reply] | None = None
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, address: Address) -> Self:
        """Return a connection to a door."""
        _, opened = await asyncio.get_running_loop().create_connection(cls, *address)
        return opened

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Keep the transport."""
        self._transport = transport

    async def ask(self, message: bytes) -> Reply:
        """Send a question and return its answer.

        Raises:
            ConnectionError: the door closed the connection.
        """
        assert self._transport is not None
        if self._transport.is_closing():
            raise ConnectionError("the door closed the connection")
        self._reply = asyncio.get_running_loop().create_future()
        self._transport.write(message)
        return await self._reply

    def data_received(self, data: bytes) -> None:
        """Answer, when the answer is whole."""
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._received[:end])
        whole = end + 4 + int(_header(head, b"content-length") or 0)
        if len(self._received) >= whole and self._reply is not None:
            body = bytes(self._received[end + 4 : whole])
            del self._received[:whole]
            self._reply.set_result(Reply(int(head[9:12]), head, body))

    def connection_lost(self, error: Exception | None) -> None:
        """Fail the open question."""
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(ConnectionError("the door closed the connection"))

    def close(self) -> None:
        """Close it."""
        if self._transport is not None:
            self._transport.close()


class Stream(asyncio.Protocol):
    """Reads an event stream: the states that it told, and when the last one came.

    Attributes:
        states: in their order.
        at_s: of the last one, by `time.perf_counter`.
        is_open: the door has not ended it.
    """

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        self.states: list[str] = []
        self.at_s = 0.0
        self.is_open = True
        self._received = bytearray()
        self._has_news = asyncio.Event()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Ask for the stream."""
        self._transport = transport
        transport.write(get(f"/v1/requests/{self.request_id}/events"))

    def data_received(self, data: bytes) -> None:
        """Note each event; its data is one line of JSON."""
        self._received += data
        while (end := self._received.find(b"\n\n")) >= 0:
            _, found, document = bytes(self._received[:end]).partition(b"\ndata: ")
            del self._received[: end + 2]
            if found:
                told = json.loads(document)
                is_own = told["request_id"] == self.request_id
                self.states.append(told["state"] if is_own else "of another request")
                self.at_s = time.perf_counter()
                self._has_news.set()

    def connection_lost(self, error: Exception | None) -> None:
        """Note the end."""
        self.is_open = False
        self._has_news.set()

    async def told(self, count: int) -> None:
        """Return when so many states were told, or the stream has ended."""
        while self.is_open and len(self.states) < count:
            self._has_news.clear()
            await self._has_news.wait()

    def close(self) -> None:
        """Leave, as a browser does."""
        if self._transport is not None:
            self._transport.close()


def get(path: str, *headers: str) -> bytes:
    """Return a GET."""
    return "\r\n".join((f"GET {path} HTTP/1.1", "Host: localhost", *headers, "", "")).encode()


def _header(head: bytes, name: bytes) -> bytes:
    lowered = head.lower()
    at = lowered.find(b"\r\n" + name + b": ")
    if at < 0:
        return b""
    end = lowered.find(b"\r\n", at + 2)
    return head[at + len(name) + 4 : end if end >= 0 else None]
