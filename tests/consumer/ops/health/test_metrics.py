"""What Prometheus reads: its own parser understands it, and its labels stay few."""

from collections.abc import Mapping

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from consumer.features.outgoing.record_writer import DEAD_LETTERS
from consumer.loop.settlement import Settlement
from consumer.ops.health.doubts import OpenDoubts
from consumer.ops.health.exposed import MAX_CODES, OTHER, ExposedMetrics
from consumer.ops.health.gauges import Gauges
from consumer.ops.health.vitals import OldestRequest
from feedback.clock import monotonic_s
from tests.consumer.ops.health.samples import vitals
from tests.consumer.samples import delivery, row, settled

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def end(state: str = "SUCCEEDED", code: str | None = None) -> Settlement:
    one = delivery("a")
    return settled(one._replace(record=one.record._replace(topic="pay")), state, code=code)


def scrape(metrics: ExposedMetrics) -> Samples:
    text = generate_latest(metrics.registry).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[f"onceward_{name}", frozenset(labels.items())]


def test_what_the_road_reports_is_counted() -> None:
    metrics = ExposedMetrics()
    metrics.ended(end())
    metrics.ended(end("FAILED", "CARD_EXPIRED"))
    metrics.ended(end("FAILED", "CARD_EXPIRED"))
    metrics.counted("deliveries", "pay", 5)
    for _ in range(2):
        metrics.swept("IN_DOUBT")
    metrics.concluded(row("b", "IN_DOUBT", topic="pay"))
    metrics.repaired(7)
    for what in ("commit", "claim", "finish", "lease", "status", "read", "poll"):
        metrics.took(what, 0.004)
    samples = scrape(metrics)
    assert value(samples, "requests_total", topic="pay", state="SUCCEEDED", code="") == 1
    assert value(samples, "requests_total", topic="pay", state="FAILED", code="CARD_EXPIRED") == 2
    assert value(samples, "requests_total", topic="pay", state="IN_DOUBT", code="") == 1
    assert value(samples, "deliveries_total", topic="pay") == 5
    assert value(samples, "claims_swept_total", state="IN_DOUBT") == 2
    assert value(samples, "statuses_repaired_total") == 7
    for call, name in (
        ("commit", {}),
        ("journal_call", {"operation": "claim"}),
        ("journal_call", {"operation": "finish"}),
        ("journal_call", {"operation": "renew"}),
        ("redis_call", {"operation": "write"}),
        ("redis_call", {"operation": "read"}),
    ):
        assert value(samples, f"{call}_seconds_count", **name) == 1
        assert value(samples, f"{call}_seconds_bucket", **name, le="0.002") == 0
        assert value(samples, f"{call}_seconds_bucket", **name, le="0.005") == 1
    assert value(samples, "journal_call_seconds_count", operation="sweep") == 0


def test_dead_letters_are_counted_and_what_waits_for_its_own_grows_older() -> None:
    metrics = ExposedMetrics()
    failed = row("a", "FAILED", topic="pay")
    metrics.done(DEAD_LETTERS, "written", [failed] * 2)
    metrics.done(DEAD_LETTERS, "written", [failed] * 1)
    metrics.done(DEAD_LETTERS, "dropped", [failed] * 4)
    metrics.waiting(DEAD_LETTERS, "pay", 7, monotonic_s() - 100, is_ours=True)
    samples = scrape(metrics)
    assert value(samples, "dead_letters_total", topic="pay", what="written") == 3
    assert value(samples, "dead_letters_total", topic="pay", what="dropped") == 4
    assert value(samples, "dead_letters_waiting", topic="pay") == 7
    age_s = value(samples, "dead_letters_oldest_seconds", topic="pay")
    assert age_s >= 100
    # At each scrape, also where the thread that told it hangs.
    assert value(scrape(metrics), "dead_letters_oldest_seconds", topic="pay") > age_s
    metrics.waiting(DEAD_LETTERS, "pay", 0, monotonic_s() - 100, is_ours=True)
    assert value(scrape(metrics), "dead_letters_oldest_seconds", topic="pay") == 0


def test_codes_that_never_end_are_counted_together() -> None:
    metrics = ExposedMetrics()
    for number in range(3 * MAX_CODES):
        metrics.ended(end("FAILED", f"ID_{number}"))
    metrics.ended(end("FAILED", "ID_0"))
    samples = scrape(metrics)
    series = [name for name, _ in samples if name == "onceward_requests_total"]
    assert len(series) == MAX_CODES + 1
    assert value(samples, "requests_total", topic="pay", state="FAILED", code="ID_0") == 2
    others = value(samples, "requests_total", topic="pay", state="FAILED", code=OTHER)
    assert others == 2 * MAX_CODES


def test_two_workers_of_one_process_do_not_share_a_registry() -> None:
    first, second = ExposedMetrics(), ExposedMetrics()
    first.repaired(1)
    assert value(scrape(second), "statuses_repaired_total") == 0


def test_gauges_are_what_stands_at_the_scrape() -> None:
    seen = vitals(
        waiting=3,
        held=2,
        slots_busy=1,
        children_ready=1,
        children_late=1,
        partitions=5,
        lease_left_s=-1.0,
        redis_away=True,
        replaced={"died": 2, "memory": 1},
        doubts=(OpenDoubts("pay", 4, 90.5),),
        lag={"pay": 12},
    )
    oldest = OldestRequest("a", "pay", 0, 17, 12.5, True)
    lateness: Mapping[str, float] = {"loop": 0.25}
    metrics = ExposedMetrics()
    metrics.registry.register(
        Gauges(
            look=lambda: seen,
            oldest=lambda: oldest,
            lateness=lambda: lateness,
            stalled=lambda: {"loop": 31.0},
        )
    )
    samples = scrape(metrics)
    plain = {
        "slots": 2,
        "slots_busy": 1,
        "buffer_requests": 3,
        "buffer_limit_requests": 8,
        "held_requests": 2,
        "partitions": 5,
        "lease_remaining_seconds": 0,
        "oldest_unfinished_seconds": 12.5,
        "stalled": 1,
    }
    assert {name: value(samples, name) for name in plain} == plain
    up = {server: value(samples, "server_up", server=server) for server in ("kafka", "redis")}
    assert up == {"kafka": 1, "redis": 0}
    assert value(samples, "children", state="ready") == 1
    assert value(samples, "children", state="late") == 1
    assert value(samples, "children", state="missing") == 1
    assert value(samples, "children_replaced_total", reason="died") == 2
    assert value(samples, "children_replaced_total", reason="memory") == 1
    assert value(samples, "progress_age_seconds", loop="loop") == 0.25
    assert value(samples, "consumer_lag_records", topic="pay") == 12
    assert value(samples, "doubts_open", topic="pay") == 4
    assert value(samples, "doubts_oldest_seconds", topic="pay") == 90.5


def test_every_name_says_whose_it_is_and_none_holds_an_id() -> None:
    metrics = ExposedMetrics()
    metrics.ended(end())
    for name, labels in scrape(metrics):
        assert name.startswith(("onceward_", "process_"))
        assert {label for label, _ in labels} <= {"topic", "state", "code", "operation", "le"}
