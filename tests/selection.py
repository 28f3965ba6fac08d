"""Which tests run, and when: the database of `make test`, and an order for several workers.

Stores are proved statement by statement on both databases. A test that has whole workers, Kafka and
Redis around a store, or Spark, runs on one database in `make test`, the same one each time, and on
the other in `make test-long`: about half of them on SQLite, half on PostgreSQL.

What may last longest comes first: else it comes together at the end, or is waited for alone. Then
comes what needs servers, which mostly waits and leaves its processor to the other lane. What only
computes comes last, and keeps all processors busy to the end. xdist gives each worker an equal
part of the list, one after the other, so the list is made of parts that each have this order.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import groupby
from typing import TypeVar

import pytest

T = TypeVar("T")

KINDS = ("sqlite", "postgres")
_ROAD = frozenset({"servers", "spark"})
# Each process that uses one of them starts its own: a further broker, or Spark, which is slow until
# Java has compiled it. So one process has all tests of one, and another one those of the next: both
# are long, since they wait for outages and refusals.
_COSTLY = frozenset({"secured", "mortal_broker", "spark"})


def mark_other_databases(items: Sequence[pytest.Item]) -> None:
    """Mark the second one of each pair that differs in the database alone as long."""
    collected = {item.nodeid for item in items}
    for item in items:
        used = {*getattr(item, "fixturenames", ())}
        by_file = "module_journal_url" in used
        if _ROAD & used and repeats(item.nodeid, collected, by_file=by_file):
            item.add_marker(pytest.mark.long)


def repeats(nodeid: str, collected: set[str], *, by_file: bool = False) -> bool:
    """Say whether a test is the second of a pair; it depends on nothing but its name.

    Args:
        by_file: the tests of its file that share a worker have its journal, all of them.
    """
    for kind, other in (KINDS, KINDS[::-1]):
        shared = nodeid.replace(kind, "")
        if shared != nodeid and nodeid.replace(kind, other) in collected:
            drawn = shared.partition("::")[0] if by_file else shared
            return KINDS[zlib.crc32(drawn.encode()) % 2] != kind
    return False


def in_order(items: Sequence[pytest.Item], *, workers: int) -> list[pytest.Item]:
    """Return tests in the order in which so many workers do them soonest."""
    first = sorted(items, key=_urgency, reverse=True)
    by_file = groupby(first, key=lambda item: (_urgency(item), item.path))
    files = [list(tests) for _, tests in by_file]
    return dealt(files, hands=workers, costs=[frozenset().union(*map(_costs, f)) for f in files])


def dealt(
    files: Sequence[Sequence[T]], *, hands: int, costs: Sequence[frozenset[str]] = ()
) -> list[T]:
    """Return equal parts one after the other, each with files from the first to the last.

    Args:
        costs: what each of the files makes its process start, none by default. Files with a cost
            in common are in one part, which begins with them; those of another cost are in the
            next part, as long as there is one.

    >>> dealt([["a"], ["b", "c"], ["d"], ["e"]], hands=2)
    ['a', 'd', 'e', 'b', 'c']
    >>> broker, spark, none = frozenset({"broker"}), frozenset({"spark"}), frozenset()
    >>> dealt([["a"], ["b"], ["c"], ["d"]], hands=2, costs=[none, spark, broker, broker])
    ['c', 'd', 'b', 'a']
    """
    named = list(costs) or [frozenset[str]()] * len(files)
    hand_of = {cost: at % hands for at, cost in enumerate(sorted(frozenset().union(*named)))}
    parts: list[list[T]] = [[] for _ in range(hands)]
    for file, own in zip(files, named, strict=True):
        if own:
            parts[min(hand_of[cost] for cost in own)].extend(file)
    for file, own in zip(files, named, strict=True):
        if not own:
            min(parts, key=len).extend(file)
    return [one for part in parts for one in part]


def _costs(item: pytest.Item) -> frozenset[str]:
    return _COSTLY & {*getattr(item, "fixturenames", ())}


def _urgency(item: pytest.Item) -> tuple[float, bool]:
    own_limit = item.get_closest_marker("timeout")
    limit_s = float(own_limit.args[0]) if own_limit else 0.0
    return limit_s, bool(_ROAD & {*getattr(item, "fixturenames", ())})
