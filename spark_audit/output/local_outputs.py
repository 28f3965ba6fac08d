"""Folders and files of this machine that are there whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from feedback.errors import NotAvailable
from feedback.files import EVERYBODY

_PART = ".part-"
_OLD = ".old-"


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Yield an empty folder that takes the place of `folder` when the block ends well."""
    part = folder.with_name(f"{_PART}{folder.name}")
    old = folder.with_name(f"{_OLD}{folder.name}")
    try:
        remove(part)
        part.mkdir(parents=True)
        yield part
        # A folder cannot be renamed over another that holds files.
        remove(old)
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
    """Put right the leftovers of a run that died, beside the folders of `parent`.

    The caller is the only one that writes there.
    """
    for old in parent.glob(f"{_OLD}*"):
        folder = parent / old.name.removeprefix(_OLD)
        if folder.exists():
            shutil.rmtree(old)
        else:
            # It died between the two renames: the folder out of its place is the only one.
            old.rename(folder)
    for part in parent.glob(f"{_PART}*"):
        shutil.rmtree(part)


@contextmanager
def new_file(path: Path, *, mode: int = EVERYBODY) -> Iterator[IO[str]]:
    """Yield a new file for text, which is on the disk when the block ends; lines end as written."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with os.fdopen(os.open(path, flags, mode), "w", encoding="utf-8", newline="") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def put_text(path: Path, text: str) -> None:
    """Write a file whole or not at all, also over an older one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    with new_file(part) as file:
        file.write(text)
    part.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Return when the names in a folder are on the disk."""
    there = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(there)
    finally:
        os.close(there)


def size_of(path: Path) -> int:
    """Return how many bytes the files have, of a folder all below it."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(one.stat().st_size for one in files if one.is_file())


def remove(path: Path) -> None:
    """Remove a file, or a folder with all in it; nothing where there is none."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
