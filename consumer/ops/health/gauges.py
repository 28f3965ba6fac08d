"""The worker's values at a scrape, as metrics of Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from consumer.features.pausing.paused import GUARD
from consumer.ops.health.vitals import OldestRequest, Vitals
from feedback.clock import epoch_ms

SERVERS = ("kafka", "redis", "journal")
# A group's figure, which several workers may show: their sum would count it several times.
_SHARED = "Take the max over workers, not the sum."


class Gauges(Collector):
    """Reads the worker anew at each scrape; without scrapes nothing is updated.

    Args:
        oldest: the request that it has had for longest, None when it has none.
        lateness: seconds since each loop last got on.
        stalled: the loops that have not got on for too long.
    """

    def __init__(
        self,
        *,
        look: Callable[[], Vitals],
        oldest: Callable[[], OldestRequest | None],
        lateness: Callable[[], Mapping[str, float]],
        stalled: Callable[[], Mapping[str, float]],
    ) -> None:
        self._look = look
        self._oldest = oldest
        self._lateness = lateness
        self._stalled = stalled

    def collect(self) -> Iterator[Metric]:
        """Yield the values of now."""
        seen, oldest = self._look(), self._oldest()
        yield _one("slots", "Handlers that can run at the same time.", seen.slots)
        yield _one("slots_busy", "Handlers that run.", seen.slots_busy)
        yield _one("buffer_requests", "Committed requests that wait for a slot.", seen.waiting)
        yield _one("buffer_limit_requests", "Room of the buffer.", seen.waiting_limit)
        yield _by(
            "order_held_requests", "Wait for another one of their key.", "topic", seen.order_held
        )
        yield _one("order_held_limit_requests", "Room for those of a topic.", seen.order_held_limit)
        yield _one("order_held_oldest_seconds", "Age of the oldest of them.", seen.order_held_s)
        yield _one("held_requests", "Claimed and not yet finished in the journal.", seen.held)
        yield _one("statuses_waiting", "Statuses that Redis does not have yet.", seen.untold)
        yield _one("partitions", "Partitions that this worker reads.", seen.partitions)
        if seen.lag:
            yield _by(
                "consumer_lag_records",
                "Records of this worker's partitions behind the committed offset.",
                "topic",
                seen.lag,
            )
        yield _one("lease_remaining_seconds", "Until the lease ends.", max(0.0, seen.lease_left_s))
        yield _one(
            "oldest_unfinished_seconds",
            "Age of the request in hand for longest; /ready names it.",
            oldest.age_s if oldest else 0.0,
        )
        yield _one("stalled", "1 while a loop has stopped getting on.", bool(self._stalled()))
        yield _by("children", "Child processes.", "state", _children(seen))
        yield _by("server_up", "1 while the server answers.", "server", _servers(seen))
        yield _by(
            "progress_age_seconds", "Since a loop last got on.", "loop", dict(self._lateness())
        )
        yield _replaced(seen)
        yield _paused(seen)
        if seen.doubts:
            counts = {one.topic: float(one.requests) for one in seen.doubts}
            ages_s = {one.topic: one.oldest_s for one in seen.doubts}
            yield _by("doubts_open", f"Requests of the group in doubt. {_SHARED}", "topic", counts)
            yield _by(
                "doubts_oldest_seconds", f"Age of the oldest of them. {_SHARED}", "topic", ages_s
            )


def _children(seen: Vitals) -> dict[str, float]:
    starting = max(0, seen.children - seen.children_ready)
    return {"ready": seen.children_ready, "late": seen.children_late, "missing": starting}


def _servers(seen: Vitals) -> dict[str, float]:
    away = (seen.kafka_away, seen.redis_away, seen.journal_away)
    return {server: float(not is_away) for server, is_away in zip(SERVERS, away, strict=True)}


def _one(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"onceward_{name}", text, value=float(value))


def _by(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(f"onceward_{name}", text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def _replaced(seen: Vitals) -> Metric:
    family = CounterMetricFamily(
        "onceward_children_replaced", "Children replaced, by reason.", labels=["reason"]
    )
    for reason, count in seen.replaced.items():
        family.add_metric([reason], count)
    return family


def _paused(seen: Vitals) -> Metric:
    family = GaugeMetricFamily(
        "onceward_topic_paused_seconds",
        "How long a topic has been paused, while it is: by the guard or for the group.",
        labels=["topic", "by"],
    )
    now_ms = epoch_ms()
    for one in seen.paused:
        by = one.by if one.by == GUARD else "group"
        family.add_metric([one.topic, by], max(0, now_ms - one.since) / 1000)
    return family
