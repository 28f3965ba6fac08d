"""Locks in the name of something that has no row, until the end of a transaction."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from sqlalchemy import Connection, text

_LOCK = text("SELECT pg_advisory_xact_lock(name) FROM unnest(CAST(:names AS bigint[])) AS name")


def lock_names(connection: Connection, group: str, names: Iterable[str]) -> None:
    """Let no other transaction lock these names of a group until this one ends.

    SQLite has one writer at a time, and needs no lock.
    """
    wanted = set(names)
    if wanted and connection.dialect.name != "sqlite":
        # Two that lock the same names lock them in the same order.
        connection.execute(_LOCK, {"names": sorted(_number(group, name) for name in wanted)})


def _number(group: str, name: str) -> int:
    digest = sha256(f"{group}\0{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
