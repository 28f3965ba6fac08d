"""What each dashboard shows: its panels, and their queries without the choice of a job."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Query(NamedTuple):
    """A query of Prometheus, and how each of its series is called."""

    expression: str
    legend: str


class Panel(NamedTuple):
    """One picture.

    Args:
        form: a curve, or in large type the value of now or the name of its series.
    """

    title: str
    unit: str
    queries: tuple[Query, ...]
    form: Literal["curve", "value", "name"] = "curve"


class Board(NamedTuple):
    """One dashboard.

    Args:
        key: a metric that each job of its choice has.
    """

    name: str
    key: str
    since: str
    panels: tuple[Panel, ...]

    @property
    def file(self) -> str:
        """Its name in `config/grafana`."""
        return f"onceward-{self.name}.json"


def _one(title: str, unit: str, expression: str, legend: str) -> Panel:
    return Panel(title, unit, (Query(expression, legend),))


def _quantile(share: float, metric: str, label: str) -> Query:
    rates = f"sum by (le, {label}) (rate({metric}_bucket[$__rate_interval]))"
    legend = f"{{{{{label}}}}} p{share * 100:g}"
    return Query(f"histogram_quantile({share}, {rates})", legend)


def _times(title: str, metric: str, label: str, *shares: float) -> Panel:
    return Panel(title, "s", tuple(_quantile(share, metric, label) for share in shares))


_WORKERS = (
    _one("Workers that answer", "short", "count by (job) (onceward_slots)", "{{job}}"),
    Panel(
        "Slots busy, and all of them",
        "short",
        (Query("sum(onceward_slots_busy)", "busy"), Query("sum(onceward_slots)", "all")),
    ),
    _one(
        "Oldest unfinished request of each worker",
        "s",
        "onceward_oldest_unfinished_seconds",
        "{{instance}}",
    ),
    Panel(
        "Requests in the workers",
        "short",
        (
            Query("sum(onceward_held_requests)", "claimed"),
            Query("sum(onceward_buffer_requests)", "wait for a slot"),
            Query("sum(onceward_statuses_waiting)", "statuses that Redis lacks"),
        ),
    ),
    _one(
        "Servers that answer", "bool_yes_no", "min by (server) (onceward_server_up)", "{{server}}"
    ),
    _one(
        "Since each loop got on", "s", "max by (loop) (onceward_progress_age_seconds)", "{{loop}}"
    ),
    _one("Children", "short", "sum by (state) (onceward_children)", "{{state}}"),
    _one(
        "Children replaced",
        "short",
        "sum by (reason) (increase(onceward_children_replaced_total[$__rate_interval]))",
        "{{reason}}",
    ),
    _times("Journal calls, p99", "onceward_journal_call_seconds", "operation", 0.99),
    _times("Redis calls, p99", "onceward_redis_call_seconds", "operation", 0.99),
    _times("Commits to Kafka, p50 and p99", "onceward_commit_seconds", "job", 0.5, 0.99),
    _one("Until the lease ends", "s", "onceward_lease_remaining_seconds", "{{instance}}"),
    _one(
        "Memory of the main processes",
        "bytes",
        "process_resident_memory_bytes and on (job, instance) onceward_slots",
        "{{instance}}",
    ),
    _one("Partitions", "short", "onceward_partitions", "{{instance}}"),
)

# Figures of a whole group, which several workers may show: their maximum.
_TOPICS = (
    _one(
        "Requests that ended",
        "reqps",
        "sum by (topic, state) (rate(onceward_requests_total[$__rate_interval]))",
        "{{topic}} {{state}}",
    ),
    _one(
        "Codes of those that did not succeed",
        "reqps",
        "sum by (topic, code) "
        '(rate(onceward_requests_total{state!="SUCCEEDED"}[$__rate_interval]))',
        "{{topic}} {{code}}",
    ),
    _one(
        "Left to read in Kafka",
        "short",
        "sum by (topic) (onceward_consumer_lag_records)",
        "{{topic}}",
    ),
    _one(
        "Records read",
        "reqps",
        "sum by (topic) (rate(onceward_deliveries_total[$__rate_interval]))",
        "{{topic}}",
    ),
    _times("Submit to end, p50 and p99", "onceward_submit_to_end_seconds", "topic", 0.5, 0.99),
    _times("Handlers, p50 and p99", "onceward_handler_seconds", "topic", 0.5, 0.99),
    _one("In doubt", "short", "max by (topic) (onceward_doubts_open)", "{{topic}}"),
    _one(
        "Age of the oldest doubt",
        "s",
        "max by (topic) (onceward_doubts_oldest_seconds)",
        "{{topic}}",
    ),
    _one(
        "Dead letters",
        "reqps",
        "sum by (topic, what) (rate(onceward_dead_letters_total[$__rate_interval]))",
        "{{topic}} {{what}}",
    ),
    _one(
        "Failures that wait for their dead letter",
        "short",
        "max by (topic) (onceward_dead_letters_waiting)",
        "{{topic}}",
    ),
    _one(
        "Topics that are paused, and since when",
        "s",
        "max by (topic, by) (onceward_topic_paused_seconds)",
        "{{topic}} by {{by}}",
    ),
    _one(
        "Requests that wait behind another one of their key",
        "short",
        "sum by (topic) (onceward_order_held_requests)",
        "{{topic}}",
    ),
)

_OUTBOX = (
    _one("Rows that wait", "short", "max by (job) (onceward_outbox_waiting)", "{{job}}"),
    _one("Age of the oldest", "s", "max by (job) (onceward_outbox_oldest_seconds)", "{{job}}"),
    _one(
        "Rows sent",
        "reqps",
        "sum by (job) (rate(onceward_outbox_sent_total[$__rate_interval]))",
        "{{job}}",
    ),
    _one("Relays that answer", "short", "count by (job) (onceward_outbox_waiting)", "{{job}}"),
    _one("Rows that are parked", "short", "max by (job) (onceward_outbox_parked_rows)", "{{job}}"),
    _one(
        "Rows parked, by reason",
        "short",
        "sum by (topic, code) (increase(onceward_outbox_parked_total[$__rate_interval]))",
        "{{topic}} {{code}}",
    ),
)

_AUDIT = (
    Panel(
        "Last verdict",
        "none",
        (Query("max by (group, verdict) (onceward_audit_verdict) == 1", "{{group}}: {{verdict}}"),),
        form="name",
    ),
    Panel(
        "Since an audit last saw everything",
        "s",
        (
            Query(
                "time() - max by (group) (onceward_audit_last_success_timestamp_seconds)",
                "{{group}}",
            ),
        ),
        form="value",
    ),
    _one(
        "Findings",
        "short",
        "max by (group, finding) (onceward_audit_findings)",
        "{{group}} {{finding}}",
    ),
    Panel(
        "Requests",
        "short",
        (
            Query("max by (group) (onceward_audit_requests)", "{{group}} judged"),
            Query("max by (group) (onceward_audit_pending)", "{{group}} not yet committed"),
            Query("max by (group) (onceward_audit_in_flight)", "{{group}} still have time"),
        ),
    ),
    _one("How long it took", "s", "max by (group) (onceward_audit_seconds)", "{{group}}"),
)

BOARDS = (
    Board("workers", "onceward_slots", "now-3h", _WORKERS),
    Board("topics", "onceward_slots", "now-3h", _TOPICS),
    Board("outbox", "onceward_outbox_waiting", "now-3h", _OUTBOX),
    Board("audit", "onceward_audit_requests", "now-30d", _AUDIT),
)
