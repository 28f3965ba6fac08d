"""Where the servers of a `make stack` are, so that single tests need not start their own."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onceward.servers.cache import cache_folder
from tests.stack.servers import Servers


def _place() -> Path:
    return cache_folder() / "stack.json"


@contextmanager
def announced(servers: Servers) -> Iterator[None]:
    """Let other processes of this user find the servers within the block.

    A lock says whether the servers still run: it ends with this process, however that ends. Of two
    stacks the first is found.
    """
    file = os.open(_place(), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield
            return
        os.truncate(file, 0)
        os.write(file, json.dumps(servers.settings()).encode())
        yield
    finally:
        os.close(file)


def running_settings() -> dict[str, str]:
    """Return the settings that name the servers of a running stack; empty when none runs."""
    try:
        file = os.open(_place(), os.O_RDONLY)
    except FileNotFoundError:
        return {}
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        settings: dict[str, str] = json.loads(os.read(file, 65536) or b"{}")
        return settings
    else:
        return {}
    finally:
        os.close(file)
