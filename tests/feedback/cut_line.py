"""A line to a real server that is cut after so many bytes, in one direction or the other."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from onceward.servers.ports import HOST

LIMIT_S = 10.0
_MOST = 65_536


@contextmanager
def cut_line(port: int, *, sends: int | None = None, receives: int | None = None) -> Iterator[int]:
    """Yield a port that passes connections on to a server, and cuts each.

    Args:
        port: of the server.
        sends: bytes of the client that reach the server; None for all.
        receives: bytes of the server that reach the client; None for all.
    """
    with socket.create_server((HOST, 0)) as listener:
        thread = threading.Thread(target=_accept, args=(listener, port, sends, receives))
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _accept(listener: socket.socket, port: int, sends: int | None, receives: int | None) -> None:
    with suppress(OSError):  # the listener was closed
        while True:
            client, _ = listener.accept()
            server = socket.create_connection((HOST, port), LIMIT_S)
            pumps = [
                threading.Thread(target=_pump, args=(client, server, sends)),
                threading.Thread(target=_pump, args=(server, client, receives)),
            ]
            for pump in pumps:
                pump.start()
            for pump in pumps:
                pump.join()
            client.close()
            server.close()


def _pump(source: socket.socket, target: socket.socket, most: int | None) -> None:
    left = most
    with suppress(OSError):
        while (left is None or left > 0) and (data := source.recv(_MOST)):
            passed = data if left is None else data[:left]
            target.sendall(passed)
            left = None if left is None else left - len(passed)
    for sock in (source, target):
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
