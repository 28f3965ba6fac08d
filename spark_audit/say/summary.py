"""`summary.json`: a day in numbers, in a form that stays; and the line for a person."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from feedback.console.printable import printable
from feedback.logs import EventLog
from feedback.web.slack import escaped
from feedback.web.webhook import post_json
from spark_audit.findings import Finding
from spark_audit.judge.day_verdict import Condition, DayVerdict, Judgement, judge_counts
from spark_audit.judge.figures import BUCKETS_PER_OCTAVE, HOUR_MS, Figures, quantile_ms
from spark_audit.judge.status_check import Disagreement
from spark_audit.output.formatting import iso
from spark_audit.say.history import History
from spark_audit.say.resend_lines import ResendLines

if TYPE_CHECKING:
    from spark_audit.stage.chain import ChainLink
    from spark_audit.stage.gaps import Gap
    from spark_audit.stage.manifest import Manifest

TRIES = 5
BACKOFF_S = 0.5
_LOG = EventLog("onceward.audit")

# Raised when a name leaves the summary or changes its meaning; new names may come at any time.
VERSION = 1
Summary = dict[str, Any]
# A topic full of holes must not make the file unreadable; `counts` has the number of all.
MOST_GAPS = 1_000

# Named on the terminal even when there are none of them.
_ALWAYS = (Finding.LOST, Finding.RAN_TWICE, Finding.IN_DOUBT)


def summarise(
    manifest: Manifest,
    figures: Figures,
    *,
    records: Mapping[str, int] = MappingProxyType({}),
    gaps: Sequence[Gap] = (),
    disagreements: Sequence[Disagreement] | None = (),
    statuses: int = 0,
    by_topic: Mapping[str | None, Mapping[Finding, int]] = MappingProxyType({}),
    conditions: Sequence[Condition],
    unseen: Sequence[str] = (),
    resend: ResendLines | None = None,
    history: History | None = None,
) -> Summary:
    """Return the summary of a day: plain JSON, the same for the same day whenever it is made.

    Args:
        records: of the window, by kind.
        disagreements: None when the statuses were not compared.
        by_topic: the requests with each finding, by topic; of no topic are those without a record.
        unseen: a sentence about each lack of evidence.
    """
    findings = count_findings(figures, gaps, disagreements or ())
    judgement = judge_counts(findings, conditions, unseen=unseen)
    history, resend = history or History(), resend or ResendLines()
    return {
        "version": VERSION,
        **_window(manifest),
        "verdict": judgement.verdict.value,
        "exit_code": int(judgement.exit_code),
        "failed_on": _failed_on(judgement, findings),
        "unseen": list(unseen),
        "counts": _counts(figures, records, findings),
        "offsets": _offsets(manifest.links),
        "by_topic": [_of_topic(topic, counts) for topic, counts in by_topic.items()],
        "statuses_compared": disagreements is not None,
        "statuses": statuses,
        "by_hour": _by_hour(figures, manifest.since_ms),
        "latency": _latency(figures),
        "top_codes": [{"code": code, "requests": count} for code, count in figures.codes],
        "top_workers": [
            {"worker": one.worker, "requests": one.requests, "errors": one.errors}
            for one in figures.workers
        ],
        "gaps": [_gap(one) for one in gaps[:MOST_GAPS]],
        # Of the others, the first sending was enough, or nothing is known of any.
        "resent": {
            "requests": findings[Finding.RESENT],
            "needed": figures.resends_needed,
        },
        "resend": _resend(resend),
        "yesterday": history.yesterday.as_json() if history.yesterday else None,
        "median_7d": history.median_as_json(),
    }


def count_findings(
    figures: Figures, gaps: Sequence[Gap], disagreements: Sequence[Disagreement]
) -> dict[Finding, int]:
    """Return how often each finding was made; a gap counts once, however long it is."""
    counts = Counter(dict(figures.findings))
    counts.update(gap.finding for gap in gaps)
    counts[Finding.STATUS_DISAGREES] += len(disagreements)
    return {finding: counts[finding] for finding in Finding}


def as_text(summary: Summary) -> str:
    """Return the summary as the text of its file."""
    return json.dumps(summary, indent=2, allow_nan=False) + "\n"


def summary_line(summary: Mapping[str, Any]) -> str:
    """Return the day in one line, for a terminal or a chat."""
    counts = summary["counts"]
    found = counts["findings"]
    named = [one for one in Finding if one in _ALWAYS or found.get(one.value)]
    words = [f"{found.get(one.value, 0):,} {one.value.replace('_', ' ')}" for one in named]
    waiting = f"{counts['pending']:,} pending, {counts['in_flight']:,} in flight"
    sent = f"{counts['requests']:,}" if counts["requests"] else "no"
    line = (
        f"{summary['date']} {summary['group']}: {str(summary['verdict']).upper()}, "
        f"{sent} requests: {', '.join(words)}; {waiting}"
    )
    if summary["verdict"] == DayVerdict.INCOMPLETE:
        line += f"; not seen: {'; '.join(summary['unseen'])}"
    return printable(line)


def _window(manifest: Manifest) -> dict[str, Any]:
    return {
        "date": manifest.date,
        "group": manifest.group,
        "since": iso(manifest.since_ms),
        "until": iso(manifest.until_ms),
        "frozen_at": iso(manifest.frozen_at_ms),
        "frozen_at_ms": manifest.frozen_at_ms,
        "since_ms": manifest.since_ms,
        "until_ms": manifest.until_ms,
    }


def _counts(
    figures: Figures, records: Mapping[str, int], findings: Mapping[Finding, int]
) -> dict[str, Any]:
    return {
        "requests": figures.requests,
        "errors": figures.errors,
        "pending": figures.pending,
        "in_flight": figures.in_flight,
        "outside_window": figures.outside,
        "by_state": dict(figures.by_state),
        "records": dict(records),
        "findings": {finding.value: count for finding, count in findings.items()},
    }


def _resend(lines: ResendLines) -> dict[str, int]:
    return {
        "ready": lines.ready,
        "payload_gone": lines.payload_gone,
        "begun": lines.begun,
        "not_text": lines.not_text,
        "withheld": lines.withheld,
    }


def _failed_on(judgement: Judgement, findings: Mapping[Finding, int]) -> list[dict[str, Any]]:
    return [
        {"rule": str(one), "finding": one.finding.value, "count": findings[one.finding]}
        for one in judgement.failed_on
    ]


def _by_hour(figures: Figures, since_ms: int) -> list[dict[str, Any]]:
    return [
        {
            "hour": iso(since_ms + at * HOUR_MS),
            "requests": hour.requests,
            "errors": hour.errors,
            "latencies": _histogram(hour.latencies),
        }
        for at, hour in enumerate(figures.hours)
    ]


def _latency(figures: Figures) -> dict[str, Any]:
    return {
        "measured": sum(figures.latencies.values()),
        "p50_ms": quantile_ms(figures.latencies, 0.5),
        "p99_ms": quantile_ms(figures.latencies, 0.99),
        # Bucket b holds durations from 2 ** (b / 8) us to 2 ** ((b + 1) / 8) us.
        "buckets_per_octave": BUCKETS_PER_OCTAVE,
        "buckets": _histogram(figures.latencies),
    }


def _histogram(counts: Mapping[int, int]) -> dict[str, int]:
    return {str(bucket): count for bucket, count in sorted(counts.items())}


def _offsets(links: Sequence[ChainLink]) -> dict[str, Any]:
    """Return how many offsets the day judged, in all and of each partition. Those of all days, with
    the gaps, are the offsets that there were; `waiting` is left to later days."""
    partitions = [
        {
            "topic": one.topic,
            "partition": one.partition,
            "first": one.first,
            "next": one.next_first,
            "judged": one.judged + one.silent,
            "records": one.judged,
            "gone": one.gone,
            "waiting": one.waiting,
        }
        for one in links
    ]
    names = ("judged", "records", "gone", "waiting")
    totals = {name: sum(int(str(one[name])) for one in partitions) for name in names}
    return {**totals, "partitions": partitions[:MOST_GAPS]}


def _of_topic(topic: str | None, counts: Mapping[Finding, int]) -> dict[str, Any]:
    return {"topic": topic, "findings": {one.value: count for one, count in counts.items()}}


def _gap(gap: Gap) -> dict[str, Any]:
    return {
        "finding": gap.finding.value,
        "topic": gap.topic,
        "partition": gap.partition,
        "first_offset": gap.first_offset,
        "next_offset": gap.next_offset,
        "records": gap.records,
    }


def post_verdict(url: str, summary: Mapping[str, Any], *, backoff_s: float = BACKOFF_S) -> bool:
    """Post the verdict and say whether it was taken; a failure is a warning in the log.

    Args:
        url: a secret.
        backoff_s: the pause after the second try; each further one is twice as long.
    """
    fault = post_json(url, {"text": slack_line(summary)}, tries=TRIES, backoff_s=backoff_s)
    if fault is not None:
        _LOG.warning("webhook.failed", reason=fault)
    return fault is None


def slack_line(summary: Mapping[str, Any]) -> str:
    """Return the line with the three characters escaped that mean something to Slack."""
    return escaped(summary_line(summary))
