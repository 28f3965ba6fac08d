"""The cache folder of the user, and a lock between the processes that fill it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from feedback.errors import NotAvailable
from feedback.files import cache_place


def cache_folder() -> Path:
    """Return the folder of all caches of Onceward, made if need be.

    Raises:
        NotAvailable: this user has no home, or may not write there.
    """
    folder = cache_place()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NotAvailable(
            f"no folder for caches ({error}): set XDG_CACHE_HOME to one that user {os.getuid()} "
            "can write"
        ) from error
    return folder


@contextmanager
def only_one(path: Path) -> Iterator[int]:
    """Hold the lock of `path`, waiting for it as long as another process has it.

    Yields:
        The file descriptor of the lock; a child that inherits it holds the lock as well, so work
        handed to that child is still alone when this process is killed.
    """
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)
