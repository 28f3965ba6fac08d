"""The page of the dead letters that may need a decision, counted and listed."""

from __future__ import annotations

from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from consumer.console.facts import ReadFact
from consumer.console.letter_board import ChosenLetters, LetterBoards
from consumer.console.letter_choice import CONDITIONS, DLQ, ENDS, LetterChoice, asked_of
from consumer.console.rendering import Templates
from consumer.console.sources import source_of
from consumer.dlq.dates import date_range_of
from feedback.clock import epoch_ms
from feedback.errors import SettingsError
from feedback.settings.sections import ConsoleSection

# The fields of `/choose`, by the names in an address; and the options of `onceward-dlq list`.
_SAME = (DLQ, "topic", "reason", "message", *ENDS)
_CHOICES = {name: name for name in _SAME} | {"exception": "class"}
_OPTIONS = {name: f"--{field}" for name, field in _CHOICES.items()}


class DeadLetterPage:
    """The page; any thread may call it."""

    def __init__(self, section: ConsoleSection, templates: Templates, boards: LetterBoards) -> None:
        self._section = section
        self._page = templates.page
        self._boards = boards

    def show(self, request: Request) -> Response:
        """Show the letters that an address chooses."""
        asked = asked_of(request.query_params)
        typed = {name: asked.get(name, "").strip() for name in ENDS}
        conditions = tuple((name, asked[name]) for name in CONDITIONS if name in asked)
        choice = LetterChoice(conditions, dlq=source_of(self._section, asked))
        fault = ""
        board: ReadFact[ChosenLetters] = ReadFact(None)
        try:
            ends = (typed[name] or None for name in ENDS)
            choice = replace(choice, stretch=date_range_of(*ends, now_ms=epoch_ms()))
        except SettingsError as error:
            fault = str(error)
        else:
            board = self._boards.look(choice)
            # The moments that were looked at: "two hours ago" is another one with each click.
            typed = {name: choice.words.get(name, "") for name in ENDS}
        return self._page(
            request,
            "letters",
            page="letters",
            board=board,
            choice=choice,
            typed=typed,
            fault=fault,
            sources=("", *self._section.dead_letter_topics),
            options=_OPTIONS,
            choices=_CHOICES,
        )
