"""A server of this process, in a thread for the length of a block."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import BaseServer

# How often it looks whether it is to end.
LOOK_EVERY_S = 0.01


@contextmanager
def serving(server: BaseServer) -> Iterator[None]:
    """Let a server serve until the block is left, and close it then."""
    thread = threading.Thread(target=server.serve_forever, args=(LOOK_EVERY_S,))
    with server:
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
