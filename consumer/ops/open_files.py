"""Database files of this host that others than their owner may read."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path

from sqlalchemy import make_url

from feedback.files import readable_by_others


def open_files(urls: Iterable[str]) -> list[Path]:
    """Return the files of SQLite databases that everybody may read, or a group may write.

    Args:
        urls: of databases, also of other kinds, and empty ones.
    """
    databases = [make_url(url).database for url in dict.fromkeys(urls) if url.startswith("sqlite")]
    files = [Path(f"{name}{end}") for name in databases if name for end in ("", "-wal", "-shm")]
    return [path for path in files if readable_by_others(path)]


def open_files_words(files: Iterable[Path]) -> str:
    """Return the sentence about such files, with the command that mends it."""
    return "others may read requests: " + shlex.join(["chmod", "600", *map(str, files)])
