"""The tasks of a person, the most urgent first. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from itertools import chain, starmap
from typing import Any
from urllib.parse import quote

from consumer.console.audit_days import AuditDay, last_judged
from consumer.console.facts import ReadFact
from consumer.console.letter_board import MOST_AGE_S, OpenLetters
from consumer.console.owed import OwedLate
from consumer.dlq.unfinished import unfinished_words
from consumer.features.pausing.paused import GUARD
from consumer.journal.doubts import UnsweptFound
from consumer.journal.pauses import PauseRow
from consumer.ops.workers.ages import age
from consumer.ops.workers.workers import UNREADABLE, WorkerRow, WorkerState
from consumer.ops.workers.workers_reading import WorkersFound
from feedback.console.plurals import counted


@dataclass(frozen=True, slots=True)
class Need:
    """Something that needs a person, or that nobody knows now.

    Attributes:
        said: a sentence.
        page: where to look, below `/`.
        is_known: whether it is known to need a person.
    """

    said: str
    page: str
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class Overview:
    """The facts of the first page.

    Attributes:
        doubts: how many are open, and the claims that may become further ones.
        days: of the audit, today first; see `audit_days`.
        others: the letters of other systems, by their topics.
        people_fault: see `Entrance`.
    """

    workers: ReadFact[WorkersFound]
    doubts: ReadFact[tuple[int, UnsweptFound]]
    letters: ReadFact[OpenLetters]
    owed: ReadFact[list[OwedLate]]
    pauses: ReadFact[list[PauseRow]]
    days: ReadFact[list[AuditDay]]
    others: Mapping[str, ReadFact[OpenLetters]] = field(default_factory=dict)
    people_fault: str = ""


# An audit of yesterday that runs this morning is in time.
MOST_DAYS_AGO = 2
_ALIVE = frozenset({WorkerState.LIVES, WorkerState.DRAINS, WorkerState.NO_HEARTBEAT})


def needs_of(seen: Overview) -> list[Need]:
    """Return the tasks; none where all is well, and all is known."""
    return [
        *_of_workers(seen.workers),
        *_of_doubts(seen.doubts),
        *_of_letters(seen.letters),
        *chain.from_iterable(starmap(_of_others, seen.others.items())),
        *_of_owed(seen.owed),
        *_of_pauses(seen.pauses),
        *_of_audit(seen.days),
        *_of_people(seen.people_fault),
    ]


def _unknown(fact: ReadFact[Any], name: str, page: str) -> Iterator[Need]:
    if fact.why:
        yield Need(f"{name} not known: {fact.why}", page, is_known=False)


def _of_workers(fact: ReadFact[WorkersFound]) -> Iterator[Need]:
    yield from _unknown(fact, "workers are", "workers")
    if fact.value is None:
        return
    found = fact.value
    if found.away is not None:
        yield Need(f"heartbeats are not known: {found.away}", "workers", is_known=False)
    if not any(one.state in _ALIVE for one in found.rows):
        yield Need("no worker is alive: start one (onceward-worker run)", "workers")
    if found.is_cut:
        said = f"there are more workers than the {len(found.rows)} that were looked at"
        yield Need(said, "workers", is_known=False)
    if uncounted := sum(one.state is WorkerState.DEAD and one.held is None for one in found.rows):
        said = f"the claims of {counted(uncounted, 'dead worker')} were not counted"
        yield Need(said, "workers", is_known=False)
    for one in found.rows:
        left = sum(claims.requests for claims in one.held or ())
        if one.state is WorkerState.DEAD and left:
            yield Need(f"{one.worker_id} is dead and has left {counted(left, 'claim')}", "workers")
        elif one.state in (WorkerState.NO_HEARTBEAT, WorkerState.LEASE_OVER):
            yield Need(f"{one.worker_id}: {one.state.value}", "workers")
        if one.heartbeat and not one.heartbeat.is_read:
            yield Need(f"{one.worker_id}: {UNREADABLE}", "workers", is_known=False)
        for topic in guarded_topics(one):
            said = f"{one.worker_id} has paused {topic}: its counterparty does not answer"
            yield Need(said, "topics")


def guarded_topics(one: WorkerRow) -> list[str]:
    """Return the topics that a worker has paused by itself."""
    paused = one.heartbeat.load.paused if one.heartbeat else {}
    return [topic for topic, by in paused.items() if by == GUARD]


def _of_doubts(fact: ReadFact[tuple[int, UnsweptFound]]) -> Iterator[Need]:
    yield from _unknown(fact, "doubts are", "doubts")
    if fact.value is None:
        return
    count, unswept = fact.value
    if count:
        verb = "waits" if count == 1 else "wait"
        yield Need(f"{counted(count, 'doubt')} {verb} for a decision", "doubts")
    claims = sum(one.requests for one in unswept.claims)
    if claims and not unswept.living:
        said = f"{counted(claims, 'request')} of dead workers may become doubts"
        yield Need(f"{said}, and no worker is alive to settle them", "doubts")


def _of_letters(fact: ReadFact[OpenLetters]) -> Iterator[Need]:
    yield from _unknown(fact, "dead letters are", "letters")
    if fact.value is None:
        return
    letters = fact.value
    yield from _undecided(letters, "letters")
    yield from _old(letters, "letters")
    for one in letters.unfinished:
        yield Need(unfinished_words(one), f"redrives/{quote(one.redrive_id, safe='')}")


def _of_others(dlq: str, fact: ReadFact[OpenLetters]) -> Iterator[Need]:
    page = f"letters?dlq={quote(dlq, safe='')}"
    yield from _unknown(fact, f"dead letters in {dlq} are", page)
    if fact.value is not None:
        where = f" in {dlq}"
        yield from _undecided(fact.value, page, where)
        yield from _old(fact.value, page, where)


def _undecided(letters: OpenLetters, page: str, where: str = "") -> Iterator[Need]:
    shown = letters.shown
    if shown:
        verb = "needs" if shown == 1 else "need"
        yield Need(f"{counted(shown, 'dead letter')}{where} {verb} a decision", page)


def _old(letters: OpenLetters, page: str, where: str = "") -> Iterator[Need]:
    if letters.age_s > MOST_AGE_S:
        said = f"dead letters{where} were last read {age(letters.age_s)} ago: newer ones"
        yield Need(f"{said} are not known", page, is_known=False)


def _of_owed(fact: ReadFact[list[OwedLate]]) -> Iterator[Need]:
    yield from _unknown(fact, "owed dead letters and outcomes are", "topics")
    for one in fact.value or ():
        waits = "waits" if one.requests == 1 else "wait"
        said = f"{counted(one.requests, 'request')} of {one.topic} {waits} for the {one.name}"
        yield Need(f"{said} since {age(one.oldest_ms / 1000)}: does Kafka take it?", "topics")


def _of_pauses(fact: ReadFact[list[PauseRow]]) -> Iterator[Need]:
    yield from _unknown(fact, "paused topics are", "topics")
    for one in fact.value or ():
        yield Need(f"{one.topic} is paused by {one.by}: {one.reason}", "topics")


def _of_audit(fact: ReadFact[list[AuditDay]]) -> Iterator[Need]:
    yield from _unknown(fact, "the audit is", "audit")
    days = fact.value or []
    last = last_judged(days)
    if last is None:
        # Whoever runs no audit needs none here.
        return
    ago = (date.fromisoformat(days[0].date) - date.fromisoformat(last.date)).days
    of_day = f"{last.date}, {counted(ago, 'day')} ago" if ago else last.date
    if last.verdict != "good":
        yield Need(f"the audit of {of_day}{',' if ago else ''} is {last.verdict}", "audit")
    if ago > MOST_DAYS_AGO:
        yield Need(f"no audit was made since that of {of_day}", "audit")


def _of_people(fault: str) -> Iterator[Need]:
    if fault:
        # No page shows more of it than this sentence.
        said = (
            "nobody may act here: people are as last read, and removals, roles and passwords since"
        )
        yield Need(f"{said} then do not count: {fault}", "")
