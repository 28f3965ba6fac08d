"""A lock that names its holder: two sessions do not share a folder, nor servers of one of them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from feedback.errors import NotAvailable
from feedback.files import OWNER_ONLY_FOLDER
from onceward.servers.cache import cache_folder

DATA_FOLDER = ".onceward"


def make_data_folder(folder: Path) -> None:
    """Make the folder, which git leaves out and its owner alone may enter: payloads stand in it."""
    folder.mkdir(mode=OWNER_ONLY_FOLDER, exist_ok=True)
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")


class AnotherSession(NotAvailable):
    """Another `onceward dev` has these ports, or this folder."""


def lock_of(address: str) -> Path:
    """Return the lock of the server at an address of this machine."""
    return cache_folder() / f"dev-{address.replace(':', '-')}.lock"


@contextmanager
def held_lock(path: Path, *, subject: str, shared: bool = False) -> Iterator[None]:
    """Hold a lock within the block. It ends with this process, however that ends; only a process
    that is killed leaves the file behind.

    Args:
        subject: the locked thing, for the error.
        shared: hold it beside others that share it, and name no holder.

    Raises:
        AnotherSession: another process has it; names that.
    """
    lock = _locked(path, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, subject)
    try:
        if not shared:
            os.truncate(lock, 0)
            os.write(lock, f"pid {os.getpid()} in {Path.cwd()}".encode())
        yield
    finally:
        _remove(path, lock)
        os.close(lock)


def _locked(path: Path, kind: int, subject: str) -> int:
    """Return the descriptor of the lock's file, which has its name when it is locked.

    Its last holder may remove it between our opening and our lock: then another one has the name.
    """
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(lock, 4096).decode(errors="replace")
            os.close(lock)
            raise AnotherSession(
                f"another `onceward dev` ({holder}) has {subject}: stop it, "
                "or name other ports in [kafka] bootstrap_servers and [redis] url"
            ) from None
        if _has_name(path, lock):
            return lock
        os.close(lock)


def _has_name(path: Path, lock: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(lock))
    except FileNotFoundError:
        return False


def _remove(path: Path, lock: int) -> None:
    """Remove the file that we hold, if nobody else shares it; one that stays does no harm."""
    with suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _has_name(path, lock):
            path.unlink()
