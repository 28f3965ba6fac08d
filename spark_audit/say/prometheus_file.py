"""The last run as a text file for Prometheus (node exporter's textfile collector)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from feedback.errors import NotAvailable
from spark_audit.findings import Finding
from spark_audit.judge.day_verdict import DayVerdict
from spark_audit.output.location import Location
from spark_audit.output.outputs import put_text

LAST_SUCCESS = "onceward_audit_last_success_timestamp_seconds"


def write_metrics(
    path: Location,
    days: Sequence[Mapping[str, Any]],
    *,
    seconds: float,
    succeeded_at_s: float | None,
) -> None:
    """Write the file anew, by renaming; each metric names its group.

    A run that saw everything is a success, also with findings; after any other the time of the
    last success stays, so that an alert on its age fires.

    Args:
        days: the summaries of those that the run has judged, at least one, in their order.
        succeeded_at_s: when it ended, in epoch seconds; None where it has not judged all yet.

    Raises:
        NotAvailable: the file cannot be written.
    """
    registry, group = CollectorRegistry(), str(days[-1]["group"])
    names = ["group", "finding"]
    text = "What the last run found, in all days that it judged."
    found = Gauge("onceward_audit_findings", text, names, registry=registry)
    for finding in Finding:
        # A day that another version has judged may lack the youngest.
        count = sum(one["counts"]["findings"].get(finding.value, 0) for one in days)
        found.labels(group, finding.value).set(count)
    text = "1 for each verdict of the days that the last run judged; good where all of them are."
    verdicts = Gauge("onceward_audit_verdict", text, ["group", "verdict"], registry=registry)
    given = {DayVerdict(one["verdict"]) for one in days}
    for verdict in DayVerdict:
        is_given = given == {verdict} if verdict is DayVerdict.GOOD else verdict in given
        verdicts.labels(group, verdict.value).set(is_given)

    def gauge(name: str, text: str, value: float) -> None:
        made = Gauge(f"onceward_audit_{name}", text, ["group"], registry=registry)
        made.labels(group).set(value)

    requests = sum(one["counts"]["requests"] for one in days)
    gauge("requests", "Requests that the last run judged.", requests)
    # Those of an earlier day that are open still are counted by the last one.
    last = days[-1]["counts"]
    gauge("pending", "Not yet committed by the group.", last["pending"])
    gauge("in_flight", "Not final, and their time is not over.", last["in_flight"])
    gauge("seconds", "How long the run took.", seconds)
    try:
        last_s = None if DayVerdict.INCOMPLETE in given else succeeded_at_s
        last_s = last_success_s(path, group) if last_s is None else last_s
        if last_s is not None:
            text = "When an audit last saw everything."
            gauge("last_success_timestamp_seconds", text, last_s)
        put_text(path, generate_latest(registry).decode())
    except OSError as error:
        raise NotAvailable(f"{path} cannot be written: {error.strerror or error}") from error


def last_success_s(path: Location, group: str) -> float | None:
    """Return when an audit of a group last was a success; None where the file tells of none."""
    try:
        text = path.read_text(encoding="utf-8")
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == LAST_SUCCESS and sample.labels.get("group") == group:
                    return float(sample.value)
    except (FileNotFoundError, ValueError):
        return None
    return None
