"""The process that goes on with a redrive: its name, and whether it may be at work."""

from __future__ import annotations

import os
import secrets
import socket

# A process that has written nothing for so long has nothing under way any more: its slowest batch
# waits for Redis, for Kafka's topics and for the acknowledgements, each for seconds.
SILENT_MS = 30_000


def new_owner() -> str:
    """Return a name for this process that no other process has."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


def is_gone(owner: str) -> bool:
    """Whether the owner is a process of this host that has certainly ended."""
    host, _, rest = owner.rpartition("-")[0].rpartition("-")
    if host != socket.gethostname() or not rest.isdigit():
        return False
    try:
        os.kill(int(rest), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def is_at_work(owner: str | None, silent_ms: int) -> bool:
    """Whether a redrive's process may still have something under way.

    Args:
        owner: None where it was stopped in order.
        silent_ms: how long ago it last wrote to the journal.
    """
    return owner is not None and not is_gone(owner) and silent_ms <= SILENT_MS
