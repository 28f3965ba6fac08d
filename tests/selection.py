"""Which database `make test` gives a test of the road; `make test-long` gives it the other one.

Stores are proved statement by statement on both databases. A test that has whole workers, Kafka and
Redis around a store, or Spark, runs on one database in `make test`, the same one each time, and on
the other in `make test-long`: about half of them on SQLite, half on PostgreSQL.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import pytest

KINDS = ("sqlite", "postgres")
_ROAD = frozenset({"servers", "spark"})


def mark_other_databases(items: Sequence[pytest.Item]) -> None:
    """Mark the second one of each pair that differs in the database alone as long."""
    collected = {item.nodeid for item in items}
    for item in items:
        if _ROAD & {*getattr(item, "fixturenames", ())} and repeats(item.nodeid, collected):
            item.add_marker(pytest.mark.long)


def repeats(nodeid: str, collected: set[str]) -> bool:
    """Say whether a test is the second of a pair; it depends on nothing but its name."""
    for kind, other in (KINDS, KINDS[::-1]):
        shared = nodeid.replace(kind, "")
        if shared != nodeid and nodeid.replace(kind, other) in collected:
            return KINDS[zlib.crc32(shared.encode()) % 2] != kind
    return False
