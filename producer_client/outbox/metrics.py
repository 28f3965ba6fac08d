"""The counters of a relay, for Prometheus and for its status pages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Protocol

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from feedback.clock import monotonic_s
from feedback.web.page_server import PageAnswer, Pages
from producer_client.outbox.outbox_table import OutboxState


class RelayMetrics:
    """The metrics of a relay; any thread may call. This class ignores all calls."""

    def sent(self, count: int) -> None:
        """Note rows that Kafka has."""

    def parked(self, topic: str, code: str, count: int = 1) -> None:
        """Note rows that Kafka can never take.

        Args:
            code: stable, as `REFUSED`.
        """

    def standing(self, standing: OutboxState) -> None:
        """Note the state of the outbox."""


NO_METRICS = RelayMetrics()


class ExposedRelayMetrics(RelayMetrics):
    """Counts the relay's rows.

    Attributes:
        registry: the metrics that a scrape reads.
    """

    def __init__(self) -> None:
        # Otherwise each counter has a second series with the time of its creation.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._sent = Counter("onceward_outbox_sent", "Rows that Kafka has.", registry=self.registry)
        self._parked = Counter(
            "onceward_outbox_parked",
            "Rows that Kafka can never take.",
            ["topic", "code"],
            registry=self.registry,
        )
        self._waiting = self._gauge("waiting", "Rows of the group that wait.")
        self._oldest = self._gauge("oldest_seconds", "Age of the oldest of them.")
        self._aside = self._gauge("parked_rows", "Rows of the group that are parked.")

    def sent(self, count: int) -> None:
        """Count rows that Kafka has."""
        self._sent.inc(count)

    def parked(self, topic: str, code: str, count: int = 1) -> None:
        """Count rows that Kafka can never take."""
        self._parked.labels(topic, code).inc(count)

    def standing(self, standing: OutboxState) -> None:
        """Show the state of the outbox; the age is that at the time of the scrape."""
        self._waiting.set(standing.waiting)
        self._aside.set(standing.parked)
        since_s = monotonic_s() - standing.oldest_ms / 1000
        is_empty = not standing.waiting
        self._oldest.set_function(lambda: 0.0 if is_empty else monotonic_s() - since_s)

    def _gauge(self, what: str, text: str) -> Gauge:
        return Gauge(f"onceward_outbox_{what}", text, registry=self.registry)


class Watched(Protocol):
    """The relay, as the status pages see it."""

    @property
    def turned_s(self) -> float: ...
    @property
    def missing(self) -> str | None: ...
    @property
    def refused(self) -> tuple[str, ...]: ...


def pages(relay: Watched, metrics: ExposedRelayMetrics, *, stalled_s: float) -> Pages:
    """Return the pages of a relay by their paths.

    Args:
        stalled_s: a relay without a sign of life for so long is stalled.
    """

    def live() -> PageAnswer:
        late_s = monotonic_s() - relay.turned_s
        return _json(late_s < stalled_s, {"live": late_s < stalled_s, "late_s": round(late_s, 1)})

    def ready() -> PageAnswer:
        missing = relay.missing
        is_ready = missing is None
        said = {"ready": is_ready, "missing": missing, "refused": relay.refused}
        return _json(is_ready, said)

    def scrape() -> PageAnswer:
        return PageAnswer(
            HTTPStatus.OK, CONTENT_TYPE_PLAIN_0_0_4, generate_latest(metrics.registry)
        )

    return {"/live": live, "/ready": ready, "/metrics": scrape}


def _json(is_fine: bool, content: Mapping[str, object]) -> PageAnswer:
    status = HTTPStatus.OK if is_fine else HTTPStatus.SERVICE_UNAVAILABLE
    return PageAnswer(status, "application/json", json.dumps(content).encode() + b"\n")
