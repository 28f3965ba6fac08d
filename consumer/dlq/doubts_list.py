"""The requests in doubt, and those of dead workers that may become doubts, as a list and as JSON.

Doubts are rows of the journal; most have no letter. Kafka is not asked.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import click

from consumer.dlq.as_json import bytes_json, failure_json, summary_json
from consumer.dlq.dates import moment
from consumer.dlq.decoded import MESSAGE_LIMIT, decoded
from consumer.dlq.filter import LetterFilter
from consumer.dlq.letter import Dialect, Failure, Letter, Original
from consumer.dlq.letter_state import LetterState
from consumer.dlq.options import LetterOptions
from consumer.dlq.tally import BARS, LetterTally
from consumer.journal.doubts import MOST_OWNERS, NOTHING_UNSWEPT, Doubts, UnsweptFound
from consumer.journal.records import Row
from feedback.console.pasting import pasted
from feedback.console.plurals import counted
from feedback.console.printable import printable
from feedback.records.envelope import Record
from feedback.settings.settings import Settings


def unswept_lines(found: UnsweptFound) -> Iterator[str]:
    """Yield how many requests lie in the effects of dead workers, and who settles them."""
    if not found.claims:
        return
    requests = sum(one.requests for one in found.claims)
    at_least = "at least " if len(found.claims) == MOST_OWNERS else ""
    yield f"{at_least}{counted(requests, 'request')} more may become doubts; {_settled_by(found)}"
    for one in found.claims:
        claims = counted(one.requests, "request")
        yield printable(
            f"  {one.worker_id}, which is dead, entered the effect of {claims}, the first at "
            f"{moment(one.since)}"
        )


def _settled_by(found: UnsweptFound) -> str:
    if found.living:
        return (
            "a sweep settles each as its handler says: in doubt, run again, or the counterparty "
            "is asked"
        )
    return "no worker is alive to settle them: start one (onceward-worker run)"


def unswept_json(found: UnsweptFound) -> dict[str, Any]:
    """Return the facts as JSON values."""
    return {
        "unswept": [one._asdict() for one in found.claims],
        "living_workers": found.living,
    }


KEY_LIMIT = 100
_HOW = ("--succeeded", "--failed")


@dataclass(frozen=True, slots=True)
class DoubtsFound:
    """The doubts that a filter takes.

    Attributes:
        counts: of all of them.
        unswept: the claims that may become further ones, whatever the filter.
    """

    counts: LetterTally
    newest: list[Row]
    unswept: UnsweptFound = NOTHING_UNSWEPT


@dataclass(frozen=True, slots=True)
class NewestDoubts:
    """The newest doubts of a group.

    Attributes:
        count: how many are open.
        unswept: the claims that may become further ones.
    """

    count: int
    newest: list[Row]
    unswept: UnsweptFound


def require_doubts_alone(given: LetterOptions) -> None:
    """Return when the options fit doubts, which are rows of the journal.

    Raises:
        UsageError: an option is about letters, so the answer would leave out doubts.
    """
    if len(given.filter.states) > 1:
        raise click.UsageError("--state in_doubt stands alone: doubts are rows of the journal")
    if given.dlqs or given.filter.classes:
        raise click.UsageError("--state in_doubt reads the journal: not with --dlq or --class")


def doubts_of(settings: Settings, given: LetterOptions, *, limit: int) -> DoubtsFound:
    """Return the group's open doubts that the filter takes."""
    with Doubts.from_settings(settings) as doubts:
        # Before the doubts: a claim that is swept between the two is counted twice, never missed.
        unswept = doubts.unswept()
        rows = (row for page in doubts.pages() for row in page)
        return replace(found_doubts(rows, given.filter, limit=limit), unswept=unswept)


def newest_doubts(settings: Settings, *, limit: int) -> NewestDoubts:
    """Return the newest of the group's open doubts. No other one is read, but counted."""
    with Doubts.from_settings(settings) as doubts:
        unswept = doubts.unswept()
        return NewestDoubts(*doubts.newest(limit), unswept)


def count_open_doubts(settings: Settings) -> tuple[int, UnsweptFound]:
    """Return how many doubts of the group are open, and what may become further ones."""
    with Doubts.from_settings(settings) as doubts:
        unswept = doubts.unswept()
        return doubts.count(), unswept


def found_doubts(rows: Iterable[Row], chosen: LetterFilter, *, limit: int) -> DoubtsFound:
    """Return the doubts that a filter takes, in memory that does not grow with them. Pure."""
    tally = LetterTally(limit=0)

    def taken() -> Iterator[Row]:
        for row in rows:
            letter = as_letter(row)
            if chosen.takes(letter):
                tally.add(letter, LetterState.IN_DOUBT)
                yield row

    newest = heapq.nlargest(limit, taken(), key=lambda row: (row.finished_at, row.request_id))
    return DoubtsFound(tally, newest)


def doubt_lines(found: DoubtsFound, *, config: str | None) -> Iterator[str]:
    """Yield the doubts as lines that no terminal may wrap: a command is pasted as it stands."""
    yield from unswept_lines(found.unswept)
    if found.newest:
        yield "The effect of each may have happened. Say between the quotes how you know:"
    for row in found.newest:
        key = row.message_key and "key " + decoded(row.message_key, limit=KEY_LIMIT).text
        words = (moment(row.finished_at), row.request_id, row.topic, key, row.code)
        yield printable("  ".join(one for one in words if one))
        if row.message:
            yield "    " + printable(row.message[:MESSAGE_LIMIT])
        for command in resolve_commands(row, config=config):
            yield "    " + printable(command)


def doubts_json(found: DoubtsFound, *, config: str | None) -> Iterator[str]:
    """Yield a JSON line for each doubt, the newest first, and the summary."""
    for row in found.newest:
        yield json.dumps(doubt_json(row, config=config))
    summary = summary_json(found.counts, bars=BARS) | unswept_json(found.unswept)
    yield json.dumps({"summary": summary})


def doubt_json(row: Row, *, config: str | None) -> dict[str, Any]:
    """Return a doubt; `failed_at` is the epoch ms since which it is one."""
    return {
        "request_id": row.request_id,
        "state": LetterState.IN_DOUBT.value,
        **failure_json(as_letter(row).failure),
        **bytes_json("key", row.message_key),
        "resolve": resolve_commands(row, config=config),
    }


def resolve_commands(row: Row, *, config: str | None) -> list[str]:
    """Return the two commands that end a doubt, as a shell takes them.

    They name the run, so that none ends the doubt of a later one. They lack the reason, without
    which they are refused: pasting one alone decides nothing.
    """
    file = () if config is None else ("--config", config)
    words = ("onceward-dlq", "resolve", *file)
    of = ("--run", str(row.generation), "--because", "")
    return [pasted((*words, how, *of), row.request_id) for how in _HOW]


def as_letter(row: Row) -> Letter:
    """Return a doubt in the shape that filters and counts take."""
    since = row.finished_at or 0
    place = (row.topic, row.partition, row.offset)
    failure = Failure(
        original=Original(*place),
        reason=row.code,
        code=row.code,
        exception_message=row.message,
        attempts=row.generation,
        failed_at=since,
    )
    record = Record(*place, since, row.message_key, None, ())
    return Letter(record, Dialect.ONCEWARD, row.request_id, failure, row.message_key)
