"""Files for their owner alone, and the folder of caches."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from feedback.errors import NotAvailable

EVERYBODY = 0o644
# Payloads, keys and passwords may stand in it.
OWNER_ONLY = 0o600
OWNER_ONLY_FOLDER = 0o700
# A group that may read was given that right on purpose: no usual umask gives it alone.
_TOO_MANY = stat.S_IRWXO | stat.S_IWGRP


def new_private_file(path: Path) -> BinaryIO:
    """Return a new file, opened to write, that its owner alone may read from the first moment.

    Raises:
        FileExistsError: it is there already.
        OSError: it cannot be made.
    """
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY), "wb")


def readable_by_others(path: Path) -> bool:
    """Return whether everybody may read or write a file, or its group write; False without one."""
    try:
        return bool(path.stat().st_mode & _TOO_MANY)
    except OSError:
        return False


def cache_place() -> Path:
    """Return the folder of all caches of Onceward, there or not.

    Raises:
        NotAvailable: this user has no home, as in a container with a user id of its own.
    """
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else home_folder("XDG_CACHE_HOME") / ".cache") / "onceward"


def home_folder(setting: str) -> Path:
    """Return the home of this user.

    Args:
        setting: to be named in the error: it gives a folder in the place of the home.

    Raises:
        NotAvailable: this user has none.
    """
    try:
        return Path.home()
    except RuntimeError as error:
        raise NotAvailable(
            f"user {os.getuid()} has no home: set HOME, or {setting}, to a folder it can write"
        ) from error
