"""All that happened to one request, in the order of time. Pure.

The times come from several clocks, so that two events of different clocks may stand the wrong way
round; each says whose time it is.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from enum import StrEnum
from itertools import chain
from typing import NamedTuple

from consumer.dlq.letter import Letter
from consumer.dlq.report import RequestReport
from consumer.journal.actions import Action
from consumer.journal.lookup import PastRun
from consumer.journal.records import JournalState, Row
from feedback.status import State
from feedback.statuses import Status


class EventKind(StrEnum):
    """The kind of an event. Of events at the same time, the earlier kind stands first."""

    NAMED = "id made"  # as a UUIDv7 tells
    SENT = "sent"
    ACCEPTED = "accepted"
    CLAIMED = "claimed"
    EFFECT = "effect entered"
    ENDED = "ended"
    TOLD = "told"
    LETTER = "dead letter"
    ACTION = "action"
    DUE = "next run due"
    DEADLINE = "deadline"


class Clock(StrEnum):
    """Whose time it is."""

    CLIENT = "client"
    JOURNAL = "journal"
    REDIS = "Redis"
    WRITER = "writer"  # of a dead letter


class TimelineEvent(NamedTuple):
    """One event; its texts are from outside, and not made printable.

    Args:
        at: epoch ms; it may lie ahead.
        detail: a message, a place or a reason in words.
    """

    at: int
    kind: EventKind
    clock: Clock
    generation: int | None = None
    name: str | None = None
    by: str | None = None
    detail: str | None = None


def timeline_of(report: RequestReport) -> list[TimelineEvent]:
    """Return the events of a request, the earliest first."""
    kinds = list(EventKind)
    # Each letter tells of the same sending.
    events = dict.fromkeys(_events(report))
    return sorted(events, key=lambda one: (one.at, kinds.index(one.kind)))


def _events(report: RequestReport) -> Iterator[TimelineEvent]:
    yield from _named(report.request_id)
    yield from chain.from_iterable(map(_of_letter, report.letters))
    yield from chain.from_iterable(map(_of_run, report.runs))
    yield from map(_of_action, report.actions)
    if report.row is not None:
        yield from _of_row(report.row, has_letter=bool(report.letters))
    if report.status is not None:
        yield from _of_status(report.status, report.row)


def _named(request_id: str) -> Iterator[TimelineEvent]:
    try:
        number = uuid.UUID(request_id)
    except ValueError:
        return
    if number.version == 7:
        yield TimelineEvent(number.int >> 80, EventKind.NAMED, Clock.CLIENT)


def _of_letter(letter: Letter) -> Iterator[TimelineEvent]:
    original, record, failure = letter.failure.original, letter.record, letter.failure
    if original.timestamp_ms is not None:
        place = place_text(original.topic, original.partition, original.offset)
        yield TimelineEvent(original.timestamp_ms, EventKind.SENT, Clock.CLIENT, detail=place)
    yield TimelineEvent(
        record.timestamp_ms,
        EventKind.LETTER,
        Clock.WRITER,
        generation=failure.attempts,
        name=failure.reason,
        by=failure.group,
        detail=place_text(record.topic, record.partition, record.offset),
    )


def _of_action(one: Action) -> TimelineEvent:
    return TimelineEvent(
        one.at,
        EventKind.ACTION,
        Clock.JOURNAL,
        generation=one.generation,
        name=one.action,
        by=one.by,
        detail=one.reason,
    )


def _of_run(run: PastRun) -> Iterator[TimelineEvent]:
    yield from _begun(run.claimed_at, run.effect_at, run.generation, run.owner)
    ended = {"name": run.outcome, "by": run.by_whom, "detail": run.allowed_by}
    yield from _ended(run.ended_at, run.generation, **ended)


def _of_row(row: Row, *, has_letter: bool) -> Iterator[TimelineEvent]:
    yield from _begun(row.claimed_at, row.effect_at, row.generation, row.owner)
    name = " ".join(filter(None, (row.state, row.code)))
    yield from _ended(row.finished_at, row.generation, name=name, by=row.by, detail=row.message)
    if row.published_at is not None:
        yield _in_journal(row.published_at, EventKind.TOLD, row, name=row.state)
    if row.dead_letter_at is not None and not has_letter:
        yield _in_journal(row.dead_letter_at, EventKind.LETTER, row, name=row.code)
    if row.state == JournalState.RETRYING and row.due_at is not None:
        yield _in_journal(row.due_at, EventKind.DUE, row)
    is_open = row.state in (JournalState.CLAIMED, JournalState.RETRYING) or row.resend
    if is_open:
        yield TimelineEvent(row.deadline_at, EventKind.DEADLINE, Clock.CLIENT)


def _of_status(status: Status, row: Row | None) -> Iterator[TimelineEvent]:
    """Yield what only Redis knows: the sending, and what it tells where the journal has no row."""
    if status.updated_at is None:
        return
    state = status.state
    if state is State.LOST:  # read from a heartbeat now, and told at no time
        state = State.RUNNING if status.generation else State.ACCEPTED
    kind = _OF_STATE.get(state, EventKind.TOLD)
    if row is None or kind is not EventKind.TOLD or row.published_at is None:
        yield TimelineEvent(
            status.updated_at,
            kind,
            Clock.REDIS,
            generation=status.generation or None,
            name=state.value if kind is EventKind.TOLD else None,
            by=status.worker,
            detail=f"attempt {status.attempt}",
        )
    if row is None and status.claimed_at is not None:
        yield from _begun(status.claimed_at, None, status.generation, status.worker)
    if row is None and status.deadline_at is not None and status.state not in _CLOSED:
        yield TimelineEvent(status.deadline_at, EventKind.DEADLINE, Clock.CLIENT)


_OF_STATE = {State.PENDING: EventKind.SENT, State.ACCEPTED: EventKind.ACCEPTED}
_CLOSED = frozenset({State.SUCCEEDED, State.SKIPPED, State.EXPIRED, State.IN_DOUBT})


def _begun(
    claimed_at: int | None, effect_at: int | None, generation: int, owner: str | None
) -> Iterator[TimelineEvent]:
    for at, kind in ((claimed_at, EventKind.CLAIMED), (effect_at, EventKind.EFFECT)):
        if at is not None:
            yield TimelineEvent(at, kind, Clock.JOURNAL, generation=generation, by=owner)


def _ended(at: int | None, generation: int, **words: str | None) -> Iterator[TimelineEvent]:
    if at is not None:
        yield TimelineEvent(at, EventKind.ENDED, Clock.JOURNAL, generation=generation, **words)


def _in_journal(at: int, kind: EventKind, row: Row, *, name: str | None = None) -> TimelineEvent:
    return TimelineEvent(at, kind, Clock.JOURNAL, generation=row.generation, name=name)


def place_text(topic: str | None, partition: int | None, offset: int | None) -> str:
    """Return a record's place on one line, as far as it is known."""
    if topic is None:
        return ""
    return topic if partition is None or offset is None else f"{topic} {partition}/{offset}"
