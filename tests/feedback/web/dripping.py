"""Clients that send a byte a second and come back when they are disconnected."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

PAUSE_S = 1.0


@contextmanager
def dripping(host: str, port: int, *, clients: int) -> Iterator[None]:
    """Let them drip until the end of the block; it begins when all have connected."""
    is_over = threading.Event()
    connected = threading.Barrier(clients + 1)

    def drip() -> None:
        is_first = True
        while not is_over.is_set():
            with suppress(OSError), socket.create_connection((host, port)) as line:
                if is_first:
                    connected.wait()
                    is_first = False
                while not is_over.is_set():
                    line.send(b"G")
                    is_over.wait(PAUSE_S)

    threads = [threading.Thread(target=drip) for _ in range(clients)]
    for thread in threads:
        thread.start()
    connected.wait()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
