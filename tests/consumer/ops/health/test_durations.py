"""How long handlers take, and requests from their submit to their end."""

from __future__ import annotations

from consumer.handlers.delivery import Delivery
from consumer.loop.mapping import job
from consumer.ops.health.exposed import (
    BUCKETS_S,
    LONGEST_MS,
    MOST_RUNS,
    ExposedMetrics,
    submitted_ms,
)
from feedback.clock import epoch_ms
from feedback.records.envelope import new_request_id
from tests.consumer.ops.health.test_metrics import scrape
from tests.consumer.samples import delivery, row, settled

HANDLER, END = "onceward_handler_seconds", "onceward_submit_to_end_seconds"


def counts(metrics: ExposedMetrics, name: str) -> float:
    found = {labels: value for (one, labels), value in scrape(metrics).items() if one == name}
    return sum(found.values())


def sent_ago(request_id: str, ms: int) -> Delivery:
    """Return a delivery whose record is so old."""
    one = delivery(request_id)
    return one._replace(record=one.record._replace(timestamp_ms=epoch_ms() - ms))


def begin(metrics: ExposedMetrics, one: Delivery, *, asks: bool = False) -> None:
    claimed = row(one.request_id, "CLAIMED")
    metrics.durations.began(one, job(one, claimed, asks=asks, doubtful=False))


def test_a_run_is_timed_once_by_its_topic() -> None:
    metrics, one = ExposedMetrics(), sent_ago("a", 5_000)
    begin(metrics, one)
    ending = settled(one)
    assert ending.finish is not None
    assert metrics.durations.judged(ending.finish, one) is ending.finish
    metrics.durations.ended(ending)
    samples = scrape(metrics)
    labels = frozenset({("topic", one.record.topic)})
    assert samples[f"{HANDLER}_count", labels] == samples[f"{END}_count", labels] == 1
    assert samples[f"{HANDLER}_sum", labels] < 5 <= samples[f"{END}_sum", labels] < 60


def test_a_retry_is_no_end_and_a_question_to_the_counterparty_no_run() -> None:
    metrics = ExposedMetrics()
    metrics.durations.ended(settled(sent_ago("a", 1), "RETRYING"))
    begin(metrics, sent_ago("b", 1), asks=True)
    metrics.durations.ended(settled(sent_ago("b", 1), "IN_DOUBT"))
    assert (counts(metrics, f"{HANDLER}_count"), counts(metrics, f"{END}_count")) == (0, 1)


def test_a_request_that_never_ran_has_an_end_and_one_without_a_time_has_none() -> None:
    metrics, one = ExposedMetrics(), sent_ago("a", 1)
    metrics.durations.never_ran(row("a", "EXPIRED"), one.record)
    metrics.durations.never_ran(row("a", "EXPIRED"), one.record._replace(timestamp_ms=-1))
    assert counts(metrics, f"{END}_count") == 1


def test_runs_whose_ends_are_not_heard_of_fill_no_memory() -> None:
    metrics = ExposedMetrics()
    for number in range(MOST_RUNS + 1):
        begin(metrics, delivery(f"r-{number}"))
    first, last = (settled(delivery(f"r-{number}")) for number in (0, MOST_RUNS))
    metrics.durations.ended(first)
    metrics.durations.ended(last)
    assert counts(metrics, f"{HANDLER}_count") == 1
    assert BUCKETS_S[-1] == 3600


def test_a_resend_counts_from_the_time_of_its_id_where_that_can_be() -> None:
    name, now_ms = new_request_id(), epoch_ms()
    assert 0 <= now_ms - submitted_ms(name, now_ms + 60_000) < 60_000
    for record_ms in (now_ms - 60_000, now_ms + 2 * LONGEST_MS, -1):
        assert submitted_ms(name, record_ms) == record_ms
    assert submitted_ms("6ba7b810-9dad-11d1-80b4-00c04fd430c8", 7) == 7
