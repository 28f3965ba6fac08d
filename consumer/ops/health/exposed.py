"""The metrics that Prometheus sees: counted as they happen, in a registry of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

from consumer.journal import Row
from consumer.loop.settlement import Settlement
from consumer.ops.health.metrics import Metrics
from feedback.clock import monotonic_s
from feedback.records.envelope import Record
from feedback.status import State

# From a commit on the same host to a server that is about to be given up.
BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
# A handler chooses its codes; one that puts an id into them must not fill the memory.
MAX_CODES = 100
OTHER = "OTHER"


class ExposedMetrics(Metrics):
    """Counts what it hears.

    Attributes:
        registry: what a scrape reads; gauges are registered there as well.
    """

    def __init__(self) -> None:
        # Else each counter has a second series with the time of its making.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._commits = self._latency("commit", "Commits of offsets to Kafka.")
        self._claims = self._latency("claim", "Transactions of the journal that carried claims.")
        self._finishes = self._latency("finish", "Transactions that carried finishes.")
        self._statuses = self._latency("status", "Batches of statuses written to Redis.")
        self._outcomes = self._count(
            "requests", "Runs by how they ended.", "topic", "state", "code"
        )
        self._delivered = self._count("deliveries", "Records read and committed.", "topic")
        self._swept = self._count("claims_swept", "Claims of dead workers taken over.", "state")
        self._repaired = self._count("statuses_repaired", "Statuses written from the journal.")
        self._letters = self._count(
            "dead_letters", "Failures that wait for no dead letter any more.", "topic", "what"
        )
        self._letters_waiting = self._gauge(
            "dead_letters_waiting", "Failures of the group without their dead letter."
        )
        self._letters_age = self._gauge("dead_letters_oldest_seconds", "Age of the oldest of them.")
        self._alerts = self._count("alerts", "Alerts to the owners of topics.", "what")
        self._passed_on = self._count("outcomes", "Outcomes that their topic has.", "topic")
        self._outcomes_waiting = self._gauge(
            "outcomes_waiting", "Ended requests of the group without the record of it."
        )
        self._outcomes_age = self._gauge("outcomes_oldest_seconds", "Age of the oldest of them.")
        self._series: dict[tuple[str, str, str], Counter] = {}
        self._codes: set[str] = set()
        self._codes_lock = threading.Lock()

    def commit_took(self, seconds: float) -> None:
        """Count one commit of offsets."""
        self._commits.observe(seconds)

    def claim_took(self, seconds: float) -> None:
        """Count one transaction that carried claims."""
        self._claims.observe(seconds)

    def finish_took(self, seconds: float) -> None:
        """Count one transaction that carried finishes."""
        self._finishes.observe(seconds)

    def status_took(self, seconds: float) -> None:
        """Count one batch of statuses."""
        self._statuses.observe(seconds)

    def delivered(self, topic: str, count: int = 1) -> None:
        """Count records that were read and committed."""
        self._delivered.labels(topic).inc(count)

    def ended(self, one: Settlement) -> None:
        """Count a run by how it ended."""
        topic = one.delivery.record.topic
        if one.follows is not None:
            self._count_outcome(topic, State.RETRYING, one.follows.takeover.because)
        elif one.stands and one.finish is not None:
            self._count_outcome(topic, one.finish.state, one.finish.code)

    def never_ran(self, row: Row, record: Record) -> None:
        """Count a request that has ended without a run."""
        self._count_outcome(record.topic, row.state, row.code)

    def _count_outcome(self, topic: str, state: str, code: str | None) -> None:
        """Count one outcome; codes beyond a hundred are counted together."""
        name = topic, state, code or ""
        series = self._series.get(name)
        if series is None:
            shown = self._bounded(name[2])
            series = self._outcomes.labels(topic, state, shown)
            if shown == name[2]:  # else their number has no bound
                self._series[name] = series
        series.inc()

    def swept(self, state: str) -> None:
        """Count a claim that was swept."""
        self._swept.labels(state).inc()

    def repaired(self, count: int) -> None:
        """Count statuses that were repaired."""
        self._repaired.inc(count)

    def dead_letters(self, topic: str, what: str, count: int) -> None:
        """Count failures that no longer wait."""
        self._letters.labels(topic, what).inc(count)

    def dead_letters_waiting(self, topic: str, count: int, since_s: float) -> None:
        """Show how many wait; their age is that of the moment of the scrape."""
        self._letters_waiting.labels(topic).set(count)
        self._letters_age.labels(topic).set_function(_age(count, since_s))

    def alerts(self, what: str, count: int) -> None:
        """Count what became of alerts."""
        self._alerts.labels(what).inc(count)

    def outcomes_written(self, topic: str, count: int) -> None:
        """Count outcomes that their topic has."""
        self._passed_on.labels(topic).inc(count)

    def outcomes_waiting(self, topic: str, count: int, since_s: float) -> None:
        """Show how many wait; their age is that of the moment of the scrape."""
        self._outcomes_waiting.labels(topic).set(count)
        self._outcomes_age.labels(topic).set_function(_age(count, since_s))

    def _bounded(self, code: str) -> str:
        if code in self._codes:
            return code
        with self._codes_lock:
            if len(self._codes) >= MAX_CODES:
                return OTHER
            self._codes.add(code)
        return code

    def _latency(self, what: str, text: str) -> Histogram:
        name = f"onceward_{what}_seconds"
        return Histogram(name, text, buckets=BUCKETS_S, registry=self.registry)

    def _gauge(self, what: str, text: str) -> Gauge:
        return Gauge(f"onceward_{what}", text, ["topic"], registry=self.registry)

    def _count(self, what: str, text: str, *labels: str) -> Counter:
        return Counter(f"onceward_{what}", text, labels, registry=self.registry)


def _age(count: int, since_s: float) -> Callable[[], float]:
    return (lambda: monotonic_s() - since_s) if count else (lambda: 0.0)
