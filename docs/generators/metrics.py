"""Every metric of Prometheus, from the registries of worker, relay and audit."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from consumer.features.pausing.paused import GUARD, PausedTopic
from consumer.ops.health.doubts import OpenDoubts
from consumer.ops.health.exposed import ExposedMetrics
from consumer.ops.health.gauges import Gauges
from consumer.ops.health.vitals import Vitals
from docs.generators.markdown import anchor, code, slug, terms
from producer_client.http.metrics import DoorMetrics
from producer_client.outbox.metrics import ExposedRelayMetrics
from spark_audit.findings import Finding
from spark_audit.judge.day_verdict import DayVerdict
from spark_audit.say.prometheus_file import write_metrics

# Those of prometheus-client's process collector, which every Prometheus user knows.
OF_THE_PROCESS = "process_"
PLACES = {
    "worker": "Of a worker, at `[worker] http_port`",
    "relay": "Of a relay, at `[outbox] http_port`",
    "http": "Of a front door, at `[http] port`",
    "audit": "Of the audit, in `onceward_audit.prom` in its output folder",
}


class MetricLine(NamedTuple):
    """One metric, as a scrape shows it."""

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str


def markdown() -> str:
    """Return a heading and the metrics of each process that has some."""
    parts = []
    for place, metrics in all_metrics().items():
        found = [_term(one) for one in metrics]
        parts += [anchor(f"metrics-{place}"), f"## {PLACES[place]}", terms(found)]
    return "\n\n".join(parts)


def all_metrics() -> dict[str, list[MetricLine]]:
    """Return the metrics of each process, as a scrape would show them."""
    return {
        "worker": [*_counted(ExposedMetrics().registry), *_gauges()],
        "relay": list(_counted(ExposedRelayMetrics().registry)),
        "http": list(_counted(DoorMetrics().registry)),
        "audit": list(_of_the_audit()),
    }


def _term(one: MetricLine) -> tuple[str, str, str, str]:
    labels = f", by {', '.join(map(code, one.labels))}" if one.labels else ""
    return slug(f"metric {one.name}"), one.name, one.text, f"{one.kind}{labels}"


def _shown_name(name: str, kind: str) -> str:
    """Return a metric's name as Prometheus stores it: that of a counter ends with `_total`."""
    return f"{name}_total" if kind == "counter" else name


def _counted(registry: CollectorRegistry) -> Iterator[MetricLine]:
    # A metric with labels shows none before it has counted something, so its own list is read.
    labels = {
        name: tuple(getattr(collector, "_labelnames", ()))
        for collector, names in registry._collector_to_names.items()
        for name in names
    }
    for family in registry.collect():
        if not family.name.startswith(OF_THE_PROCESS):
            name = _shown_name(family.name, family.type)
            yield MetricLine(name, family.type, labels[family.name], family.documentation)


def _gauges() -> Iterator[MetricLine]:
    gauges = Gauges(
        look=lambda: _BUSY, oldest=lambda: None, lateness=lambda: {"loop": 0.0}, stalled=dict
    )
    for family in gauges.collect():
        labels = tuple(family.samples[0].labels)
        name = _shown_name(family.name, family.type)
        yield MetricLine(name, family.type, labels, family.documentation)


# Has one of each thing, so that each metric shows its labels.
_BUSY = Vitals(
    waiting=1,
    waiting_limit=1,
    held=1,
    slots=1,
    slots_busy=1,
    free_slots=1,
    children=1,
    children_ready=1,
    replaced={"memory": 1},
    is_open=True,
    is_joined=True,
    partitions=1,
    kafka_away=False,
    redis_away=False,
    journal_away=False,
    untold=1,
    is_draining=False,
    lease_left_s=1.0,
    paused=(PausedTopic(topic="payments", reason="an outage", since=0, by=GUARD),),
    order_held={"payments": 1},
    lag={"payments": 1},
    doubts=(OpenDoubts("payments", 1, 1.0),),
)


def _of_the_audit() -> Iterator[MetricLine]:
    counts = {"requests": 1, "pending": 0, "in_flight": 0}
    counts_of = {"findings": dict.fromkeys((one.value for one in Finding), 0), **counts}
    summary = {"group": "payments", "counts": counts_of, "verdict": DayVerdict.GOOD}
    with tempfile.TemporaryDirectory(prefix="onceward-docs-") as folder:
        path = Path(folder, "onceward_audit.prom")
        write_metrics(path, [summary], seconds=1.0, succeeded_at_s=1.0)
        for family in text_string_to_metric_families(path.read_text(encoding="utf-8")):
            labels = tuple(family.samples[0].labels)
            yield MetricLine(family.name, family.type, labels, family.documentation)
