"""The day as one page that needs no network: its values, put into its template.

The template engine escapes all text from outside (ids, codes, topics, names of workers), and
nothing may switch that off. The page's own script is known by its hash; no other runs.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from spark_audit.findings import AT_RISK, ORDINARY, SHOWN, URGENT, Finding
from spark_audit.judge.day_verdict import DayVerdict
from spark_audit.output.formatting import moment
from spark_audit.say.cards import CardSources, FileLink, before, cards_of
from spark_audit.say.charts import bars, columns_of, heat_map, times_of
from spark_audit.say.wording import MEANINGS, label, milliseconds, number, shown

# A day that has any of them is good by its own limits only.
GRAVE = (Finding.LOST, Finding.RAN_TWICE, Finding.OVERDUE)
# An effect may have happened twice, or nobody knows whether it has happened.
_UNSURE = (Finding.RAN_TWICE, Finding.IN_DOUBT, Finding.FORGOTTEN)
_UNDONE = (Finding.LOST, Finding.OVERDUE, Finding.STUCK)
_NOTHING = "nothing lost, nothing ran twice"


def headline(summary: Mapping[str, Any]) -> str:
    """Return the verdict in one sentence."""
    at_risk = _named(summary, AT_RISK)
    match DayVerdict(summary["verdict"]):
        case DayVerdict.INCOMPLETE:
            return "; ".join(("Not everything could be seen", *_prefixed("so far ", at_risk)))
        case DayVerdict.BAD:
            failed = _named(summary, (Finding(one["finding"]) for one in summary["failed_on"]))
            over = [one for one in failed if one not in at_risk]
            if not at_risk:
                return f"{_NOTHING.capitalize()}; over its limit: {', '.join(over)}"
            return f"At risk: {', '.join((*at_risk, *over))}"
        case DayVerdict.GOOD if _is_empty(summary):
            return "No requests"
        case DayVerdict.GOOD if _named(summary, GRAVE):
            return f"Within the limits that were set: {', '.join(at_risk)}"
        case DayVerdict.GOOD if at_risk:
            return f"{_NOTHING.capitalize()}; at risk: {', '.join(at_risk)}"
        case DayVerdict.GOOD:
            return f"Nothing at risk: {_NOTHING}"


def stake(summary: Mapping[str, Any]) -> str:
    """Return the consequence, in a sentence or two."""
    said = []
    if _is_empty(summary):
        said.append("Nobody sent anything, or [audit] topics names the wrong ones.")
    if summary["unseen"]:
        said.append("What was not seen may hide a loss, or an effect that happened twice.")
    if _named(summary, _UNSURE):
        said.append(
            "Money may have moved twice, or nobody knows whether it moved: ask the counterparty "
            "before anything is sent again."
        )
    if _named(summary, _UNDONE):
        said.append("Requests have not been done in time: their clients wait.")
    return " ".join(said) or "No effect is missing, doubled or in doubt: nobody has to act on one."


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


def _named(summary: Mapping[str, Any], findings: Iterable[Finding]) -> list[str]:
    found = summary["counts"]["findings"]
    counts = {one: found.get(one.value, 0) for one in findings}
    return [f"{count:,} {label(one.value)}" for one, count in counts.items() if count]


def _is_empty(summary: Mapping[str, Any]) -> bool:
    return not summary["counts"]["requests"] and not _named(summary, AT_RISK)


def _prefixed(prefix: str, named: list[str]) -> list[str]:
    return [prefix + ", ".join(named)] if named else []


# The files beside the page, and their purpose; files of single findings are told with them.
FILES: Mapping[str, str] = {
    "summary.json": "the day in numbers, for programs",
    "resend.jsonl": "what is safe to send again",
    "in_doubt.csv": "what a person has to decide",
    "status_disagrees.csv": "whose client was told otherwise",
}


@dataclass(frozen=True, slots=True)
class ComparedNumber:
    """A number of the day beside those of the days before, all as text."""

    name: str
    title: str
    today: str
    yesterday: str
    median: str


@dataclass(frozen=True, slots=True)
class NotFound:
    """A finding that the day does not have: its meaning, and how often earlier days had it."""

    title: str
    today: str
    yesterday: str
    median: str
    meaning: str


def render(summary: Mapping[str, Any], evidence: CardSources) -> str:
    """Return the page as HTML.

    Args:
        summary: as `summarise` returns it, or as it was read from its file.
    """
    columns = columns_of(summary)
    times = times_of(summary["since_ms"], summary["until_ms"])
    titles = [column.title for column in columns]
    requests = list(zip(titles, (column.requests for column in columns), strict=True))
    errors = list(zip(titles, (column.errors for column in columns), strict=True))
    return _ENVIRONMENT.get_template("report.html").render(
        summary=summary,
        script_hash=_hash_of(_ENVIRONMENT.get_template("report.js").render()),
        headline=headline(summary),
        stake=stake(summary),
        span=span(summary["since_ms"], summary["until_ms"]),
        days=evidence.days,
        figures=_figures(summary),
        urgent=cards_of(summary, URGENT, evidence),
        ordinary=cards_of(summary, ORDINARY, evidence),
        not_found=_not_found(summary),
        topics=_topics(summary),
        requests=bars(requests, times, what="requests"),
        errors=bars(errors, times, what="errors"),
        heat=heat_map(columns, times),
        columns=columns,
        states=_shares(summary["counts"]["by_state"], summary["counts"]["requests"]),
        files=_files(summary, evidence.files),
        most=SHOWN,
    )


def _figures(summary: Mapping[str, Any]) -> list[ComparedNumber]:
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
        ComparedNumber(
            name,
            title,
            written(today[name]),
            written(yesterday.get(name)),
            written(median.get(name)),
        )
        for name, title, today, written in named
    ]


def _not_found(summary: Mapping[str, Any]) -> list[NotFound]:
    counts = summary["counts"]["findings"]
    missing = [one for one in (*URGENT, *ORDINARY) if not counts[one.value]]
    return [
        NotFound(
            label(one.value),
            "not compared" if _is_unknown(summary, one) else number(0),
            before(summary, "yesterday", one),
            before(summary, "median_7d", one),
            MEANINGS[one],
        )
        for one in missing
    ]


def _is_unknown(summary: Mapping[str, Any], finding: Finding) -> bool:
    return finding is Finding.STATUS_DISAGREES and not summary["statuses_compared"]


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """A topic of the day: its judged offsets and records, and its findings."""

    name: str
    offsets: str
    records: str
    found: str


def _topics(summary: Mapping[str, Any]) -> list[TopicSummary]:
    judged = {one["topic"]: [0, 0] for one in summary["by_topic"]}
    for one in summary["offsets"]["partitions"]:
        sums = judged.setdefault(one["topic"], [0, 0])
        sums[0] += one["judged"]
        sums[1] += one["records"]
    found = {one["topic"]: one["findings"] for one in summary["by_topic"]}
    names = sorted(judged, key=lambda name: (-sum(found.get(name, {}).values()), name or ""))
    return [
        TopicSummary(
            shown(name) if name else "without a record",
            number(judged[name][0]),
            number(judged[name][1]),
            _in_words(found.get(name, {})),
        )
        for name in names
    ]


def _in_words(counts: Mapping[str, int]) -> str:
    named = [one for one in (*URGENT, *ORDINARY) if counts.get(one.value)]
    return ", ".join(f"{counts[one.value]:,} {label(one.value)}" for one in named) or "nothing"


def _shares(counts: Mapping[str, int], total: int) -> list[tuple[str, str, str]]:
    by_size = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return [(name, number(count), _share(count / total)) for name, count in by_size]


def _share(share: float) -> str:
    return f"{share:.2%}" if share >= 0.0001 else "< 0.01%"


def _files(summary: Mapping[str, Any], files: Sequence[str]) -> list[FileLink]:
    beside = [FileLink(name, what) for name, what in FILES.items() if name in files]
    folder = f"../../findings/date={summary['date']}/"
    return [*beside, FileLink(folder, "every finding in full, as Parquet")]


def _hash_of(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__name__.rpartition(".")[0]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "shown": shown, "label": label}
    return environment


_ENVIRONMENT = _environment()
