"""The findings as the page shows them, each with all that helps a person with it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from spark_audit.findings import ORDINARY, SHOWN, Finding, FindingRow
from spark_audit.say import wording
from spark_audit.say.history import DayMark
from spark_audit.say.paste import Paste, pastes_for_all, pastes_of
from spark_audit.say.wording import NOTHING, PageTable, label, milliseconds, number, shown, when


class Fact(NamedTuple):
    """A name and its value, as text."""

    name: str
    text: str


class SourceFacts(NamedTuple):
    """The facts of one source."""

    by: str
    facts: tuple[Fact, ...]


def known_of(row: FindingRow, told: str | None) -> tuple[SourceFacts, ...]:
    """Return the facts about a request; unknown ones are left out.

    Args:
        told: its status in Redis, as text; None where it was not asked.
    """
    has_row = row.state is not None
    return (
        SourceFacts(
            "Journal", _facts(row, (*_ROW, *_LIMITS)) if has_row else (Fact("Row", "none"),)
        ),
        SourceFacts("Redis", (Fact("Told", "not asked" if told is None else shown(told)),)),
        SourceFacts("Kafka", _facts(row, _RECORDS if has_row else (*_RECORDS, *_LIMITS))),
    )


def place(row: FindingRow) -> str:
    """Return where its record lies."""
    if row.topic is None:
        return NOTHING
    return f"{shown(row.topic)} / {row.partition} / {row.offset}"


_Read = Callable[[FindingRow], str]


def _facts(row: FindingRow, names: Sequence[tuple[str, _Read]]) -> tuple[Fact, ...]:
    facts = (Fact(name, read(row)) for name, read in names)
    return tuple(one for one in facts if one.text != NOTHING)


def _yes_or_no(value: bool | None) -> str:
    return NOTHING if value is None else "yes" if value else "no"


def _late_by(row: FindingRow) -> str:
    if row.finished_at is None or row.deadline_at is None or row.finished_at <= row.deadline_at:
        return NOTHING
    return milliseconds(row.finished_at - row.deadline_at)


_LIMITS: tuple[tuple[str, _Read], ...] = (
    ("Attempt", lambda row: number(row.attempt)),
    ("Deadline", lambda row: when(row.deadline_at)),
)
_ROW: tuple[tuple[str, _Read], ...] = (
    ("State", lambda row: shown(row.state)),
    ("Code", lambda row: shown(row.code)),
    ("Runs", lambda row: number(row.runs)),
    ("With effect", lambda row: number(row.effect_runs)),
    ("Claimed", lambda row: when(row.claimed_at)),
    ("Ended", lambda row: when(row.finished_at)),
    ("Late by", _late_by),
    ("Worker", lambda row: shown(row.owner)),
)
_RECORDS: tuple[tuple[str, _Read], ...] = (
    ("Topic / partition / offset", place),
    ("First record", lambda row: when(row.first_at)),
    ("Records", lambda row: number(row.records)),
    ("Resend needed", lambda row: _yes_or_no(row.resend_needed)),
    ("Safe to send again", lambda row: "yes" if row.can_resend else NOTHING),
    ("Dead letters", lambda row: number(row.dead_letters) if row.dead_letters else NOTHING),
    ("Their reason", lambda row: shown(row.reason)),
)


GAPS = (Finding.RETENTION_GAP, Finding.OFFSET_GAP)


@dataclass(frozen=True, slots=True)
class FileLink:
    """A file beside the page.

    Args:
        href: relative, so that the folders may move together.
    """

    href: str
    text: str


@dataclass(frozen=True, slots=True)
class ShownRequest:
    """One request with a finding.

    Args:
        state: of its row, with its code where it has one.
        age: at the freeze.
    """

    request_id: str
    topic: str
    state: str
    age: str
    since: str
    since_ms: int | None
    known: tuple[SourceFacts, ...]
    pastes: tuple[Paste, ...]


@dataclass(frozen=True, slots=True)
class Card:
    """A finding, and the first requests or gaps with it.

    Args:
        tone: `bad` where it fails the day, else `warn`, or `plain` where nobody has to act.
        oldest: the age of the oldest request.
        gaps: in a table; None for findings of requests.
        all_of_it: the files that have every one.
    """

    name: str
    title: str
    meaning: str
    count: int
    yesterday: str
    median: str
    tone: str
    oldest: str
    pastes: tuple[Paste, ...]
    requests: tuple[ShownRequest, ...]
    gaps: PageTable | None
    all_of_it: tuple[FileLink, ...]

    @property
    def shown(self) -> int:
        """How many of them are on the page."""
        return len(self.requests) if self.gaps is None else len(self.gaps.rows)


@dataclass(frozen=True, slots=True)
class CardSources:
    """The sources of the cards, beside the summary.

    Args:
        first: the first requests of each finding, the oldest first.
        told: the status in Redis of the requests in `first`; of one that is missing it was not
            asked.
        files: the names of the files beside the page.
    """

    first: Mapping[Finding, Sequence[FindingRow]]
    told: Mapping[str, str]
    files: Sequence[str]
    days: Sequence[DayMark] = ()


def cards_of(
    summary: Mapping[str, Any], findings: Sequence[Finding], evidence: CardSources
) -> list[Card]:
    """Return a card for each of these findings that was made, in their order."""
    counts = summary["counts"]["findings"]
    return [_card(summary, one, evidence) for one in findings if counts[one.value]]


def _card(summary: Mapping[str, Any], finding: Finding, evidence: CardSources) -> Card:
    rows = evidence.first.get(finding, ())[:SHOWN]
    told, now_ms = evidence.told, summary["frozen_at_ms"]
    requests = tuple(_shown(finding, row, told.get(row.request_id), now_ms) for row in rows)
    gaps = [gap for gap in summary["gaps"] if gap["finding"] == finding.value]
    return Card(
        name=finding.value,
        title=label(finding.value),
        meaning=_meaning(summary, finding),
        count=summary["counts"]["findings"][finding.value],
        yesterday=before(summary, "yesterday", finding),
        median=before(summary, "median_7d", finding),
        tone=_tone(summary, finding),
        oldest=next((one.age for one in requests if one.age != NOTHING), ""),
        pastes=pastes_for_all(finding, summary),
        requests=requests,
        gaps=wording.gaps_table(gaps[:SHOWN]) if finding in GAPS else None,
        all_of_it=tuple(_links(summary, finding, evidence.files)),
    )


def before(summary: Mapping[str, Any], name: str, finding: Finding) -> str:
    """Return how often a finding was made before.

    Args:
        name: `yesterday` or `median_7d`.
    """
    return number(((summary[name] or {}).get("findings") or {}).get(finding.value))


def is_failing(summary: Mapping[str, Any], finding: Finding) -> bool:
    """Say whether a finding makes the audit fail."""
    return any(one["finding"] == finding.value for one in summary["failed_on"])


def _meaning(summary: Mapping[str, Any], finding: Finding) -> str:
    meaning, resent = wording.MEANINGS[finding], summary["resent"]
    if finding is Finding.RESENT and resent["requests"]:
        needed = f"Needed: {number(resent['needed'])} of {number(resent['requests'])}."
        return f"{meaning} {needed}"
    return meaning


def _tone(summary: Mapping[str, Any], finding: Finding) -> str:
    if is_failing(summary, finding):
        return "bad"
    return "plain" if finding in ORDINARY else "warn"


def _shown(finding: Finding, row: FindingRow, told: str | None, now_ms: int) -> ShownRequest:
    since_ms = row.claimed_at if row.first_at is None else row.first_at
    return ShownRequest(
        request_id=shown(row.request_id),
        topic=shown(row.topic),
        state=" ".join(shown(one) for one in (row.state or "no row", row.code) if one),
        age=_age(now_ms, since_ms),
        since=when(since_ms),
        since_ms=since_ms,
        known=known_of(row, told),
        pastes=pastes_of(finding, row.request_id, run=row.generation),
    )


def _age(now_ms: int, since_ms: int | None) -> str:
    # A clock that is wrong has requests of tomorrow.
    return NOTHING if since_ms is None or since_ms > now_ms else milliseconds(now_ms - since_ms)


def _links(
    summary: Mapping[str, Any], finding: Finding, files: Sequence[str]
) -> Iterator[FileLink]:
    name = f"{finding.value}.csv"
    if name in files:
        yield FileLink(name, name)
    if finding not in GAPS:
        folder = f"findings/date={summary['date']}/kind={finding.value}"
        yield FileLink(f"../../{folder}/", f"{folder} (Parquet)")
