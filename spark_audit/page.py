"""The day as one page that needs no network: what it says, put into its template.

Whatever comes from outside (ids, codes, topics, names of workers) is escaped by the template
engine, and nothing may switch that off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from spark_audit import wording
from spark_audit.charts import bars, columns_of, heat_map, times_of
from spark_audit.findings import REQUEST_FINDINGS, Finding
from spark_audit.found import SHOWN, Found
from spark_audit.statuses import Disagreement
from spark_audit.texts import moment
from spark_audit.verdict import Verdict
from spark_audit.wording import Table, label, milliseconds, number, shown

# A day that has any of them is good by its own limits only.
GRAVE = (Finding.LOST, Finding.RAN_TWICE, Finding.OVERDUE)
# Found on good days as well: they are told without a colour.
_ORDINARY = (Finding.RESENT, Finding.LATE)


@dataclass(frozen=True, slots=True)
class Compared:
    """A number of the day beside those of the days before, all as text.

    Args:
        tone: `bad`, `warn`, `plain` or `none`; none where there is nothing to say.
    """

    name: str
    title: str
    today: str
    yesterday: str
    median: str
    tone: str = "plain"
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Detail:
    """The first requests with one finding, or its first gaps."""

    name: str
    title: str
    meaning: str
    count: int
    table: Table
    is_bad: bool


def render(
    summary: Mapping[str, Any],
    first: Mapping[Finding, Sequence[Found]],
    disagreements: Sequence[Disagreement] = (),
) -> str:
    """Return the page as HTML.

    Args:
        summary: as `summarise` returns it, or as it was read from its file.
        first: the first requests of each finding.
        disagreements: the statuses that disagree.
    """
    columns = columns_of(summary)
    times = times_of(summary["since_ms"], summary["until_ms"])
    titles = [column.title for column in columns]
    requests = list(zip(titles, (column.requests for column in columns), strict=True))
    errors = list(zip(titles, (column.errors for column in columns), strict=True))
    return _ENVIRONMENT.get_template("report.html").render(
        summary=summary,
        headline=headline(summary),
        span=span(summary["since_ms"], summary["until_ms"]),
        figures=_figures(summary),
        findings=_findings(summary),
        requests=bars(requests, times, what="requests"),
        errors=bars(errors, times, what="errors"),
        heat=heat_map(columns, times),
        columns=columns,
        states=_shares(summary["counts"]["by_state"], summary["counts"]["requests"]),
        details=_details(summary, first, disagreements),
        most=SHOWN,
    )


def headline(summary: Mapping[str, Any]) -> str:
    """Return the verdict in words."""
    found = summary["counts"]["findings"]
    failed = [f"{one['count']:,} {label(one['finding'])}" for one in summary["failed_on"]]
    match Verdict(summary["verdict"]):
        case Verdict.INCOMPLETE:
            return "Not everything could be seen"
        case Verdict.BAD:
            return ", ".join(dict.fromkeys(failed))
        case Verdict.GOOD if not summary["counts"]["requests"]:
            return "No requests"
        case Verdict.GOOD if any(found.get(one.value) for one in GRAVE):
            return "Within the limits that were set"
        case Verdict.GOOD:
            return "Nothing lost, nothing ran twice"


def span(since_ms: int, until_ms: int) -> str:
    """Return a window in words; a whole day is its date.

    >>> span(1_795_132_800_000, 1_795_219_200_000)
    '20 November 2026, UTC'
    """
    since, until = moment(since_ms), moment(until_ms)
    if since is None or until is None:
        return f"{since_ms} to {until_ms}"
    is_midnight = since == since.replace(hour=0, minute=0, second=0, microsecond=0)
    if is_midnight and until - since == timedelta(days=1):
        return f"{since.day} {since:%B %Y}, UTC"
    return f"{since.day} {since:%B %Y %H:%M} to {until.day} {until:%B %Y %H:%M}, UTC"


def _figures(summary: Mapping[str, Any]) -> list[Compared]:
    counts, latency = summary["counts"], summary["latency"]
    named = (
        ("requests", "Requests", counts, number),
        ("errors", "Errors", counts, number),
        ("p50_ms", "Half within", latency, milliseconds),
        ("p99_ms", "99 % within", latency, milliseconds),
        ("pending", "Pending", counts, number),
        ("in_flight", "In flight", counts, number),
    )
    yesterday, median = summary["yesterday"] or {}, summary["median_7d"] or {}
    return [
        Compared(
            name,
            title,
            written(today[name]),
            written(yesterday.get(name)),
            written(median.get(name)),
        )
        for name, title, today, written in named
    ]


def _findings(summary: Mapping[str, Any]) -> list[Compared]:
    found = summary["counts"]["findings"]
    yesterday = (summary["yesterday"] or {}).get("findings", {})
    median = (summary["median_7d"] or {}).get("findings", {})
    compared = []
    for one in Finding:
        is_unknown = one is Finding.STATUS_DISAGREES and not summary["statuses_compared"]
        compared.append(
            Compared(
                one.value,
                label(one.value),
                "not compared" if is_unknown else number(found[one.value]),
                number(yesterday.get(one.value)),
                number(median.get(one.value)),
                "warn" if is_unknown else _tone(summary, one),
                _meaning(summary, one),
            )
        )
    return compared


def _meaning(summary: Mapping[str, Any], finding: Finding) -> str:
    meaning, resent = wording.MEANINGS[finding], summary["resent"]
    if finding is Finding.RESENT and resent["requests"]:
        needed = f"Needed: {number(resent['needed'])} of {number(resent['requests'])}."
        return f"{meaning} {needed}"
    return meaning


def _tone(summary: Mapping[str, Any], finding: Finding) -> str:
    if not summary["counts"]["findings"][finding.value]:
        return "none"
    if _is_failing(summary, finding):
        return "bad"
    return "plain" if finding in _ORDINARY else "warn"


def _is_failing(summary: Mapping[str, Any], finding: Finding) -> bool:
    return any(one["finding"] == finding.value for one in summary["failed_on"])


def _shares(counts: Mapping[str, int], total: int) -> list[tuple[str, str, str]]:
    by_size = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return [(name, number(count), _share(count / total)) for name, count in by_size]


def _share(share: float) -> str:
    return f"{share:.2%}" if share >= 0.0001 else "< 0.01%"


def _details(
    summary: Mapping[str, Any],
    first: Mapping[Finding, Sequence[Found]],
    disagreements: Sequence[Disagreement],
) -> list[Detail]:
    details = []
    for one in Finding:
        count = summary["counts"]["findings"][one.value]
        if not count:
            continue
        if one is Finding.STATUS_DISAGREES:
            table = wording.disagreements_table(disagreements[:SHOWN])
        elif one in REQUEST_FINDINGS:
            table = wording.table_of(one, first.get(one, ())[:SHOWN])
        else:
            gaps = [gap for gap in summary["gaps"] if gap["finding"] == one.value]
            table = wording.gaps_table(gaps[:SHOWN])
        is_bad = _is_failing(summary, one)
        meaning = _meaning(summary, one)
        details.append(Detail(one.value, label(one.value), meaning, count, table, is_bad))
    return details


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("spark_audit"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "shown": shown, "label": label}
    return environment


_ENVIRONMENT = _environment()
