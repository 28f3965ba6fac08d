"""The dead letters that an address or a form is about: the group's own, or another system's."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.exceptions import HTTPException

from consumer.console.letter_choice import DLQ
from consumer.dlq.filter import LetterFilter
from consumer.dlq.options import LetterOptions
from feedback.settings.sections import ConsoleSection


def source_of(section: ConsoleSection, asked: Mapping[str, str]) -> str:
    """Return the dead letter topic that is asked for; empty for the group's own letters.

    Raises:
        HTTPException: the settings do not name it. Else any topic could be read here, and who may
            see values would see those of all.
    """
    dlq = asked.get(DLQ, "")
    if dlq and dlq not in section.dead_letter_topics:
        raise HTTPException(404, f"[console] dead_letter_topics does not name {dlq}")
    return dlq


def all_of(dlq: str) -> LetterOptions:
    """Return all letters of a source, as the commands choose them."""
    return LetterOptions(LetterFilter(), topics=frozenset(), dlqs=frozenset(filter(None, [dlq])))
