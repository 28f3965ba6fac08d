"""A link that loses replies: the server has done what it was asked, and nobody hears of it."""

import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from functools import partial
from types import TracebackType
from typing import Self

from onceward.servers.ports import HOST

CHUNK_BYTES = 262_144
CONNECT_LIMIT_S = 10.0
JOIN_LIMIT_S = 10.0
OFFSET_COMMIT = b"\x00\x08"


class Loss(StrEnum):
    """What the client sees in place of the reply."""

    CUT = "cut"
    SILENCE = "silence"


def is_sql_commit(sent: bytes) -> bool:
    """Whether this commits a transaction in PostgreSQL.

    >>> is_sql_commit(b"Q\\x00\\x00\\x00\\x0bCOMMIT\\x00")
    True
    """
    return b"COMMIT\x00" in sent


def is_offset_commit(sent: bytes) -> bool:
    """Whether one of these requests commits offsets in Kafka; they begin with a whole one.

    >>> is_offset_commit(b"\\x00\\x00\\x00\\x02\\x00\\x0c" + b"\\x00\\x00\\x00\\x02\\x00\\x08")
    True
    """
    start = 0
    while start + 6 <= len(sent):
        if sent[start + 4 : start + 6] == OFFSET_COMMIT:
            return True
        start += 4 + int.from_bytes(sent[start : start + 4])
    return False


class LosingLink:
    """One port that leads to one server; loses replies when it is told to.

    Args:
        upstream: host and port of the server, up or not.
        port: where it listens; 0 for any.
        loses: whether a reply to what the client has just sent may be lost.
    """

    def __init__(self, upstream: str, *, port: int = 0, loses: Callable[[bytes], bool]) -> None:
        host, _, upstream_port = upstream.rpartition(":")
        self._upstream = (host, int(upstream_port))
        self._loses = loses
        self._listener = socket.create_server((HOST, port))
        self._ended, self._end = socket.socketpair()
        self._lock = threading.Lock()
        self._standing: set[socket.socket] = set()
        self._to_lose = 0
        self._how = Loss.CUT
        self.lost = 0
        self.address = f"{HOST}:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept, name="losing-link")]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def lose(self, count: int, how: Loss = Loss.CUT) -> None:
        """Lose the next `count` replies, each with its connection; `lost` counts them."""
        with self._lock:
            self._to_lose, self._how = count, how

    def cut_all(self) -> None:
        """Close every connection that stands; new ones work."""
        with self._lock:
            standing = list(self._standing)
        for client in standing:
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close every connection and listen no more."""
        self._end.close()  # Whoever selects on the other end of the pair sees its end.
        for thread in self._threads:
            thread.join(JOIN_LIMIT_S)
        self._listener.close()
        self._ended.close()

    def _accept(self) -> None:
        while self._ended not in select.select([self._listener, self._ended], [], [])[0]:
            client, _ = self._listener.accept()
            carry = threading.Thread(target=self._carry, args=(client,), name="losing-link")
            self._threads.append(carry)
            carry.start()

    def _carry(self, client: socket.socket) -> None:
        # A side that is gone ends the connection, as a wire would.
        server = partial(socket.create_connection, self._upstream, CONNECT_LIMIT_S)
        with client, suppress(OSError), server() as connected, self._is_standing(client):
            self._pass_on(client, connected)

    @contextmanager
    def _is_standing(self, client: socket.socket) -> Iterator[None]:
        with self._lock:
            self._standing.add(client)
        try:
            yield
        finally:
            with self._lock:
                self._standing.discard(client)

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        due: Loss | None = None
        is_silent = False
        for side, data in self._heard(client, server):
            if side is client:
                due = due or self._taken(data)
                server.sendall(data)
            elif due is Loss.CUT:
                self.lost += 1
                return
            elif due is Loss.SILENCE:
                self.lost += 0 if is_silent else 1
                is_silent = True
            else:
                client.sendall(data)

    def _taken(self, data: bytes) -> Loss | None:
        with self._lock:
            if not self._to_lose or not self._loses(data):
                return None
            self._to_lose -= 1
            return self._how

    def _heard(
        self, client: socket.socket, server: socket.socket
    ) -> Iterator[tuple[socket.socket, bytes]]:
        while True:
            ready = select.select([client, server, self._ended], [], [])[0]
            if self._ended in ready:
                return
            for side in ready:
                if not (data := side.recv(CHUNK_BYTES)):
                    return
                yield side, data
