"""The facts about a request, by their source: the journal, Redis, Kafka. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from spark_audit.say.finding_row import FindingRow
from spark_audit.say.wording import NOTHING, milliseconds, number, shown, when


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
