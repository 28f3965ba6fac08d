"""Folders and files that are there whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from feedback.errors import NotAvailable

EVERYBODY = 0o644
OWNER_ONLY = 0o600
_PART = ".part-"
_OLD = ".old-"


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Yield an empty folder that takes the place of `folder` when the block ends well.

    Raises:
        NotAvailable: the disk refuses; what stood there before stands there still.
    """
    part = folder.with_name(f"{_PART}{folder.name}")
    old = folder.with_name(f"{_OLD}{folder.name}")
    try:
        _remove(part)
        part.mkdir(parents=True)
        yield part
        # A folder cannot be renamed over another that holds files.
        _remove(old)
        if folder.exists():
            folder.rename(old)
        try:
            part.rename(folder)
        except OSError:
            if old.exists():
                old.rename(folder)
            raise
        sync_folder(folder.parent)
    except OSError as error:
        raise NotAvailable(f"{folder} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def recover(parent: Path) -> None:
    """Put right what a run that died left beside the folders of `parent`.

    The caller is the only one that writes there.

    Raises:
        OSError: the disk refuses.
    """
    for old in parent.glob(f"{_OLD}*"):
        folder = parent / old.name.removeprefix(_OLD)
        if folder.exists():
            shutil.rmtree(old)
        else:
            # It died between the two renames: what was out of its place is all that there is.
            old.rename(folder)
    for part in parent.glob(f"{_PART}*"):
        shutil.rmtree(part)


@contextmanager
def told_when_full(output: Path) -> Iterator[None]:
    """Say of a full disk that it is one, and not of what was read when it was.

    Raises:
        NotAvailable: names the disks that it may be.
    """
    try:
        yield
    except NotAvailable as error:
        if os.strerror(errno.ENOSPC) not in str(error):
            raise
        raise NotAvailable(
            f"no space is left on the disk of {output}, or on that of Spark's temporary files"
        ) from error


@contextmanager
def new_file(path: Path, *, mode: int = EVERYBODY) -> Iterator[IO[str]]:
    """Yield a new file for text, which is on the disk when the block ends; lines end as written.

    Args:
        mode: who may read it; payloads are for the owner only.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with os.fdopen(os.open(path, flags, mode), "w", encoding="utf-8", newline="") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def write_text(path: Path, text: str) -> None:
    """Write a new file."""
    with new_file(path) as file:
        file.write(text)


def put_text(path: Path, text: str) -> None:
    """Write a file whole or not at all, also over an older one.

    Raises:
        OSError: the disk refuses; the older one stands there still.
    """
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    write_text(part, text)
    part.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Return when the names in a folder are on the disk."""
    there = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(there)
    finally:
        os.close(there)


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
