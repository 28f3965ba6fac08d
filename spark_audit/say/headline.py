"""The first sentences of the page: whether anything is at risk. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from spark_audit.findings import AT_RISK, Finding
from spark_audit.judge.day_verdict import DayVerdict
from spark_audit.output.formatting import moment
from spark_audit.say.wording import label

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
