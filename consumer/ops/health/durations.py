"""How long handlers take, and how long it takes from the submit of a request to its end."""

from __future__ import annotations

import uuid

from prometheus_client import CollectorRegistry, Histogram

from consumer.handlers.delivery import Delivery
from consumer.journal import Finish, Row
from consumer.loop.feature import Feature
from consumer.loop.mapping import Run
from consumer.loop.settlement import Settlement
from consumer.pool import Job
from feedback.clock import epoch_ms, monotonic_s
from feedback.records.envelope import Record
from feedback.status import FINAL

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
