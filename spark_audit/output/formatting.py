"""Times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from feedback.records.envelope import MAX_EPOCH_MS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(at_ms: int) -> datetime | None:
    """Return a time in UTC; None for one that no calendar has."""
    if not 0 <= at_ms <= MAX_EPOCH_MS:
        return None
    return _EPOCH + timedelta(milliseconds=at_ms)


def iso(at_ms: int) -> str:
    """Return a time in UTC as text; one that no calendar has stays a number.

    >>> iso(1_795_132_800_000)
    '2026-11-20T00:00:00.000Z'
    """
    found = moment(at_ms)
    if found is None:
        return f"{at_ms} ms"
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")
