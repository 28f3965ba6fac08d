"""Finds letters that were written twice: by a crash, or by two workers at once.

The letters are stored in a nameless SQLite database, which moves to the disk when it grows and
disappears when it is closed.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable

from consumer.dlq.letter import DeadLetter

# SQLite's page cache; more goes to the disk.
CACHE_KIB = 16_384


class Seen:
    """Remembers letters by request and attempts. Belongs to one thread."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.execute("CREATE TABLE seen (name BLOB PRIMARY KEY) WITHOUT ROWID")

    def __enter__(self) -> Seen:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fresh(self, letters: Iterable[DeadLetter]) -> list[DeadLetter]:
        """Return the letters that are new, and remember them."""
        insert = "INSERT OR IGNORE INTO seen VALUES (?)"
        self._database.execute("BEGIN")
        fresh = [one for one in letters if self._database.execute(insert, (_name(one),)).rowcount]
        self._database.execute("COMMIT")
        return fresh

    def close(self) -> None:
        """Forget all."""
        self._database.close()


def _name(letter: DeadLetter) -> bytes:
    text = f"{letter.failure.attempts} {letter.request_id}"
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
