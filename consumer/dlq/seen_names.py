"""A set of names on a disk: memory does not grow with it."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable

# SQLite's page cache; more goes to the disk.
CACHE_KIB = 16_384


class SeenNames:
    """Remembers names by their hashes. Belongs to one thread."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.execute("CREATE TABLE seen (name BLOB PRIMARY KEY) WITHOUT ROWID")

    def __enter__(self) -> SeenNames:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __contains__(self, name: str) -> bool:
        select = "SELECT 1 FROM seen WHERE name = ?"
        return self._database.execute(select, (_hash(name),)).fetchone() is not None

    def add(self, names: Iterable[str]) -> list[bool]:
        """Remember names; say of each whether it is new."""
        insert = "INSERT OR IGNORE INTO seen VALUES (?)"
        self._database.execute("BEGIN")
        new = [bool(self._database.execute(insert, (_hash(one),)).rowcount) for one in names]
        self._database.execute("COMMIT")
        return new

    def close(self) -> None:
        """Forget all."""
        self._database.close()


def _hash(name: str) -> bytes:
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()
