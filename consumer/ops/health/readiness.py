"""The conditions that a worker lacks to take requests and to write their statuses. Pure."""

from __future__ import annotations

from consumer.ops.health.vitals import Vitals


def missing(seen: Vitals) -> dict[str, str]:
    """Return the missing conditions, in words; none when the worker is ready.

    A worker without a partition is ready: it stands by for the others. Without Redis it works, but
    no client can see that, so it is not ready.
    """
    lacks = {
        "kafka": _kafka(seen),
        "redis": "it does not answer" if seen.redis_away else "",
        "journal": _journal(seen),
        "pool": _pool(seen),
        "worker": "it is ending" if seen.is_draining else "",
    }
    return {part: why for part, why in lacks.items() if why}


def _kafka(seen: Vitals) -> str:
    if seen.is_draining:
        return ""  # it left the group on purpose
    if seen.kafka_away:
        return "it does not answer"
    if not seen.is_open:
        return "not yet connected"
    return "" if seen.is_joined else "not yet in the group"


def _pool(seen: Vitals) -> str:
    if not seen.children_ready:
        return "no child is ready"
    if not seen.starts_nothing:
        return ""
    return f"no child has started what it was given up to {seen.children_late_s:.0f} s ago"


def _journal(seen: Vitals) -> str:
    if seen.journal_away:
        return "it does not answer"
    return "" if seen.lease_left_s > 0 else "the lease is over"
