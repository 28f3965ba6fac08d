"""The metrics that Prometheus sees: counted as they happen, in a registry of their own."""

from __future__ import annotations

import threading
from collections import Counter as Tally
from collections.abc import Callable, Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    ProcessCollector,
    disable_created_metrics,
)

from consumer.features.outgoing.posting import DEAD_LETTERS, OUTCOMES, OutgoingListener
from consumer.journal import Row
from consumer.loop.feature import Feature
from consumer.loop.settlement import Settlement
from consumer.ops.health.calls import CallDurations
from consumer.ops.health.durations import RunDurations
from feedback.clock import monotonic_s
from feedback.observer import Observer
from feedback.records.envelope import Record
from feedback.status import State

# A handler chooses its codes; one that puts an id into them must not fill the memory.
MAX_CODES = 100
OTHER = "OTHER"


class ExposedMetrics(Feature, OutgoingListener, Observer):
    """Counts events.

    Attributes:
        registry: read by a scrape; gauges are registered there as well.
        durations: another feature, which times runs and requests.
        calls: times calls of the servers; alone an observer that counts nothing.
    """

    def __init__(self) -> None:
        # Else each counter has a second series with the time of its making.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.durations = RunDurations(self.registry)
        self.calls = CallDurations(self.registry)
        self._outcomes = self._count(
            "requests", "Runs by how they ended.", "topic", "state", "code"
        )
        self._swept = self._count("claims_swept", "Claims of dead workers taken over.", "state")
        self._repaired = self._count("statuses_repaired", "Statuses written from the journal.")
        self._letters = self._count(
            "dead_letters", "Failures that wait for no dead letter any more.", "topic", "what"
        )
        self._passed_on = self._count("outcomes", "Outcomes that their topic has.", "topic")
        alerts = self._count("alerts", "Alerts to the owners of topics.", "what")
        delivered = self._count("deliveries", "Records read and committed.", "topic")
        self._counters = {"alerts": alerts, "deliveries": delivered}
        self._waiting = {
            DEAD_LETTERS: (
                self._gauge(
                    "dead_letters_waiting", "Failures of the group without their dead letter."
                ),
                self._gauge("dead_letters_oldest_seconds", "Age of the oldest of them."),
            ),
            OUTCOMES: (
                self._gauge(
                    "outcomes_waiting", "Ended requests of the group without the record of it."
                ),
                self._gauge("outcomes_oldest_seconds", "Age of the oldest of them."),
            ),
        }
        self._series: dict[tuple[str, str, str], Counter] = {}
        self._codes: set[str] = set()
        self._codes_lock = threading.Lock()

    def took(self, what: str, seconds: float) -> None:
        """Count how long a call of a server took."""
        self.calls.took(what, seconds)

    def counted(self, what: str, label: str, count: int) -> None:
        """Count deliveries, by topic, and alerts, by their results."""
        if what in self._counters:
            self._counters[what].labels(label).inc(count)

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

    def concluded(self, row: Row) -> None:
        """Count a request that a takeover or a sweep has ended."""
        self._count_outcome(row.topic, row.state, row.code)

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

    def done(self, kind: str, what: str, rows: Sequence[Row]) -> None:
        """Count rows that wait for their record no longer."""
        for topic, count in Tally(row.topic for row in rows).items():
            if kind == DEAD_LETTERS:
                self._letters.labels(topic, what).inc(count)
            else:
                self._passed_on.labels(topic).inc(count)

    def waiting(self, kind: str, topic: str, count: int, since_s: float, *, is_ours: bool) -> None:
        """Show how many wait; their age is that of the moment of the scrape."""
        waiting, age = self._waiting[kind]
        waiting.labels(topic).set(count)
        age.labels(topic).set_function(_age(count, since_s))

    def _bounded(self, code: str) -> str:
        if code in self._codes:
            return code
        with self._codes_lock:
            if len(self._codes) >= MAX_CODES:
                return OTHER
            self._codes.add(code)
        return code

    def _gauge(self, what: str, text: str) -> Gauge:
        return Gauge(f"onceward_{what}", text, ["topic"], registry=self.registry)

    def _count(self, what: str, text: str, *labels: str) -> Counter:
        return Counter(f"onceward_{what}", text, labels, registry=self.registry)


def _age(count: int, since_s: float) -> Callable[[], float]:
    return (lambda: monotonic_s() - since_s) if count else (lambda: 0.0)
