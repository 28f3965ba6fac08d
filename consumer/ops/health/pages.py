"""The pages /live, /ready and /metrics."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from consumer.ops.health.vitals import OldestRequest, Vitals
from feedback.web.page_server import PageAnswer, Pages


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


def pages(
    *,
    worker_id: str,
    look: Callable[[], Vitals],
    oldest: Callable[[], OldestRequest | None],
    stalled: Callable[[], Mapping[str, float]],
    registry: CollectorRegistry,
) -> Pages:
    """Return the pages of a worker by their paths."""

    def live() -> PageAnswer:
        late = {loop: round(late_s, 1) for loop, late_s in stalled().items()}
        return _json(not late, {"live": not late, "worker_id": worker_id, "stalled": late})

    def ready() -> PageAnswer:
        seen = look()
        lacks = missing(seen)
        return _json(not lacks, _ready(worker_id, seen, lacks, oldest()))

    def metrics() -> PageAnswer:
        return PageAnswer(HTTPStatus.OK, CONTENT_TYPE_PLAIN_0_0_4, generate_latest(registry))

    return {"/live": live, "/ready": ready, "/metrics": metrics}


def _ready(
    worker_id: str, seen: Vitals, lacks: Mapping[str, str], oldest: OldestRequest | None
) -> dict[str, Any]:
    return {
        "ready": not lacks,
        "missing": lacks,
        "refused": seen.refused,
        "worker_id": worker_id,
        "kafka": {"joined": seen.is_joined, "partitions": seen.partitions},
        "journal": {"lease_left_s": round(seen.lease_left_s, 1)},
        "pool": {
            "children": seen.children,
            "ready": seen.children_ready,
            "late": seen.children_late,
            "slots": seen.slots,
            "busy": seen.slots_busy,
        },
        "held": seen.held,
        "waiting": seen.waiting,
        "oldest_unfinished": None if oldest is None else oldest._asdict(),
        "paused": [one._asdict() for one in seen.paused],
    }


def _json(is_fine: bool, content: Mapping[str, Any]) -> PageAnswer:
    status = HTTPStatus.OK if is_fine else HTTPStatus.SERVICE_UNAVAILABLE
    return PageAnswer(status, "application/json", json.dumps(content).encode() + b"\n")
