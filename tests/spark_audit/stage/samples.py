"""Manifests as the tests need them."""

from __future__ import annotations

from datetime import UTC, datetime

from feedback.clock import epoch_ms
from spark_audit.stage.manifest import FrozenPartition, Manifest, TopicKind

DAY_MS = 86_400_000
# Yesterday: what is much older, the broker's retention takes away in the middle of a test.
BEGIN_MS = epoch_ms() // DAY_MS * DAY_MS - DAY_MS
DATE = f"{datetime.fromtimestamp(BEGIN_MS / 1000, UTC):%Y-%m-%d}"


def partition(
    topic: str = "payments",
    number: int = 0,
    *,
    kind: TopicKind = TopicKind.REQUEST,
    begin: int = 0,
    start: int = 0,
    end: int = 10,
    committed: int | None = None,
) -> FrozenPartition:
    """Return a partition of a frozen topic."""
    return FrozenPartition(kind.value, topic, number, begin, start, end, committed)


def manifest(
    *partitions: FrozenPartition,
    group: str = "group",
    since_ms: int = 0,
    until_ms: int = 2**62,
    carried: tuple[str, ...] = (),
) -> Manifest:
    """Return a manifest of these partitions, whose window takes in all times."""
    return Manifest(
        date=DATE,
        since_ms=since_ms,
        until_ms=until_ms,
        frozen_at_ms=BEGIN_MS + DAY_MS,
        journal_read_at_ms=0,
        group=group,
        grace_ms=600_000,
        deadline_s=3600.0,
        partitions=partitions or (partition(),),
        carried=carried,
    )
