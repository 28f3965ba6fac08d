"""The journal's facts beside a list of letters: doubts, later requests, redrives cut off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from consumer.dlq.doubts_list import count_open_doubts, unswept_json, unswept_lines
from consumer.dlq.letter_state import LetterStanding
from consumer.dlq.tally import LetterTally
from consumer.dlq.unfinished import unfinished_json, unfinished_lines, unfinished_of
from consumer.journal.doubts import NOTHING_UNSWEPT, UnsweptFound
from consumer.journal.redrive.later_requests import NOTHING_LATER, LaterRequests, NamedLater
from consumer.journal.redrive.reopening import UnfinishedRedrive
from feedback.console.printable import printable
from feedback.settings.settings import Settings

# So many failures are looked at, the first that are given.
MOST_ASKED = 1000
# A person is shown so many; the JSON has all.
MOST_LINES = 20


def asked_anew(settings: Settings, request_ids: Iterable[str]) -> NamedLater:
    """Return the later requests of the first `MOST_ASKED` failures; see `LaterRequests.of`."""
    given = iter(request_ids)
    asked = list(islice(given, MOST_ASKED))
    with LaterRequests.from_settings(settings) as requests:
        later = requests.of(asked)
    return later if next(given, None) is None else later._replace(is_whole=False)


def asked_anew_lines(later: NamedLater) -> Iterator[str]:
    """Yield a line for each failure that has later requests, and one for what was not looked at.

    Pure.
    """
    if later.of:
        yield "later requests of the same key succeeded: was the client's wish fulfilled by them?"
        yield from _lines(later.of)
    if later.undecided:
        yield "later requests of the same key run, wait or are in doubt: they may fulfil it yet"
        yield from _lines(later.undecided)
    if later.failed:
        yield "later requests of the same key failed too: to send both back may fulfil a wish twice"
        yield from _lines(later.failed)
    if not later.is_whole:
        yield "not all later requests were looked through: others may have succeeded"


def _lines(named: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for failed, ids in islice(named.items(), MOST_LINES):
        yield printable(f"  {failed}: {', '.join(ids)}")
    if len(named) > MOST_LINES:
        yield f"  and {len(named) - MOST_LINES:,} more: --json has them"


@dataclass(frozen=True, slots=True)
class ListHints:
    """The facts beside a list; empty where the journal was not asked."""

    doubts: int | None = None
    unswept: UnsweptFound = NOTHING_UNSWEPT
    later: NamedLater = NOTHING_LATER
    unfinished: list[UnfinishedRedrive] = field(default_factory=list)


def hints_of(settings: Settings, tally: LetterTally, *, asks_doubts: bool) -> ListHints:
    """Return the hints for a list.

    Args:
        asks_doubts: whether the list is of the whole group, so that its doubts belong to it.
    """
    doubts, unswept = count_open_doubts(settings) if asks_doubts else (None, NOTHING_UNSWEPT)
    is_open = (
        one.request_id for one in tally.newest() if LetterStanding(one.state, one.ours).is_open_here
    )
    later = asked_anew(settings, is_open)
    return ListHints(doubts, unswept, later, unfinished_of(settings))


def hint_lines(hints: ListHints, *, config: str | None) -> Iterator[str]:
    """Yield the hints below a list. Pure."""
    yield from asked_anew_lines(hints.later)
    yield from unswept_lines(hints.unswept)
    yield from unfinished_lines(hints.unfinished, config=config)


def hints_json(hints: ListHints) -> dict[str, Any]:
    """Return the hints as fields of a list's summary. Pure."""
    doubts: dict[str, Any] = {}
    if hints.doubts is not None:
        doubts = {"open_doubts": hints.doubts, **unswept_json(hints.unswept)}
    return {
        **doubts,
        "succeeded_later_is_whole": hints.later.is_whole,
        "undecided_later": dict(hints.later.undecided),
        "failed_later": dict(hints.later.failed),
        "unfinished_redrives": [unfinished_json(one) for one in hints.unfinished],
    }
