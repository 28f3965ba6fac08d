"""The journal's facts beside a list of letters: doubts, later requests, redrives cut off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from consumer.dlq.asked_anew import asked_anew, asked_anew_lines
from consumer.dlq.doubts_list import count_open_doubts
from consumer.dlq.letter_state import LetterState
from consumer.dlq.tally import Tally
from consumer.dlq.unfinished import unfinished_json, unfinished_lines, unfinished_of
from consumer.dlq.unswept import unswept_json, unswept_lines
from consumer.journal.doubts import NOTHING_UNSWEPT, UnsweptFound
from consumer.journal.later_successes import NOTHING_LATER, SucceededLater
from consumer.journal.unsent import UnfinishedRedrive
from feedback.settings.settings import Settings


@dataclass(frozen=True, slots=True)
class ListHints:
    """The facts beside a list; empty where the journal was not asked.

    Attributes:
        doubts: how many requests of the group are in doubt; None where that was not asked.
        unswept: the claims that may become doubts.
        later: later requests of the listed letters' keys.
        unfinished: the redrives that may have left requests unsent.
    """

    doubts: int | None = None
    unswept: UnsweptFound = NOTHING_UNSWEPT
    later: SucceededLater = NOTHING_LATER
    unfinished: list[UnfinishedRedrive] = field(default_factory=list)


def hints_of(settings: Settings, tally: Tally, *, asks_doubts: bool) -> ListHints:
    """Return the hints for a list.

    Args:
        asks_doubts: whether the list is of the whole group, so that its doubts belong to it.

    Raises:
        NotAvailable: the journal is away.
    """
    doubts, unswept = count_open_doubts(settings) if asks_doubts else (None, NOTHING_UNSWEPT)
    is_open = (one.request_id for one in tally.newest() if one.state is LetterState.OPEN)
    later = asked_anew(settings, is_open)
    return ListHints(doubts, unswept, later, unfinished_of(settings))


def hint_lines(hints: ListHints, *, config: str | None) -> Iterator[str]:
    """Yield the hints below a list. Pure.

    Args:
        config: of `--config`, which each command gets as well.
    """
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
        "unfinished_redrives": [unfinished_json(one) for one in hints.unfinished],
    }
