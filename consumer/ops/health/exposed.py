"""The metrics that Prometheus sees: counted as they happen, in a registry of their own."""

from __future__ import annotations

import threading
import uuid
from collections import Counter as Tally
from collections.abc import Callable, Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

from consumer.features.outgoing.record_writer import DEAD_LETTERS, OUTCOMES, OutgoingListener
from consumer.handlers.delivery import Delivery
from consumer.journal import Finish, Row, Run
from consumer.loop.feature import Feature
from consumer.loop.settlement import Settlement
from consumer.ops.health.calls import CallDurations
from consumer.pool import Job
from feedback.clock import epoch_ms, monotonic_s
from feedback.observer import Observer
from feedback.records.envelope import Record
from feedback.status import FINAL, State

# From a handler that asks a cache to one that waits for a batch of a bank's.
BUCKETS_S = (
    *(0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0),
    *(60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0),
)
# Runs that are timed at the same time; the end of a run that others took over is not heard of.
MOST_RUNS = 10_000
# An id whose time lies further before its record was chosen, not made.
LONGEST_MS = 7 * 86_400_000


class RunDurations(Feature):
    """Times runs, and requests that end in this worker."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._handler = Histogram(
            "onceward_handler_seconds",
            "Runs of handlers, from the hand-over to a child to the result or the death.",
            ["topic"],
            buckets=BUCKETS_S,
            registry=registry,
        )
        self._end = Histogram(
            "onceward_submit_to_end_seconds",
            "Requests that ended here, from their submit on, by the clocks of client and worker.",
            ["topic"],
            buckets=BUCKETS_S,
            registry=registry,
        )
        self._began_s: dict[Run, float] = {}

    def began(self, delivery: Delivery, job: Job) -> None:
        """Note when a run begins; not where only its counterparty is asked."""
        if job.asks:
            return
        if len(self._began_s) >= MOST_RUNS:
            del self._began_s[next(iter(self._began_s))]
        self._began_s[job.request_id, job.generation] = monotonic_s()

    def judged(self, finish: Finish, delivery: Delivery) -> Finish:
        """Time a run that has a result; it is written to the journal afterwards."""
        self._time((finish.request_id, finish.generation), delivery.record.topic)
        return finish

    def ended(self, one: Settlement) -> None:
        """Time a run that died, and a request that has ended."""
        record = one.delivery.record
        self._time(one.run, record.topic)
        if one.follows is None and one.stands and one.finish is not None:
            self._ended(one.finish.request_id, one.finish.state, record)

    def never_ran(self, row: Row, record: Record) -> None:
        """Time a request that has ended without a run."""
        self._ended(row.request_id, row.state, record)

    def _time(self, run: Run, topic: str) -> None:
        began_s = self._began_s.pop(run, None)
        if began_s is not None:
            self._handler.labels(topic).observe(monotonic_s() - began_s)

    def _ended(self, request_id: str, state: str, record: Record) -> None:
        submit_ms = submitted_ms(request_id, record.timestamp_ms)
        # Old clients write records without a time.
        if state in FINAL and submit_ms >= 0:
            took_ms = epoch_ms() - submit_ms
            self._end.labels(record.topic).observe(max(0, took_ms) / 1000)


def submitted_ms(request_id: str, timestamp_ms: int) -> int:
    """Return when a request was submitted, in epoch ms: as its id says, where that is a UUIDv7.

    A resend is a later record, and keeps the id. The time of an id that lies behind its record, or
    a week and more before it, was chosen by somebody, and the record's time counts.

    >>> submitted_ms("018bcfe5-6800-7000-8000-000000000000", 1_700_000_005_000)
    1700000000000
    >>> submitted_ms("order-7", 1_700_000_005_000)
    1700000005000
    """
    try:
        made = uuid.UUID(request_id)
    except ValueError:
        return timestamp_ms
    if made.version != 7:
        return timestamp_ms
    made_ms = made.int >> 80
    return made_ms if 0 <= timestamp_ms - made_ms < LONGEST_MS else timestamp_ms


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
