"""The filter that chooses dead letters. Pure, and stored as JSON with the actions that used it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from consumer.dlq.dates import iso
from consumer.dlq.dialects.letter_headers import simple_name
from consumer.dlq.letter import Letter
from consumer.dlq.letter_state import LetterState
from consumer.dlq.tally import message_kind


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Conditions that a letter must meet, all of them. Any value of a condition will do.

    Attributes:
        classes: exception classes, whole or without their package.
        messages: the exception's messages, as `message_kind` writes them.
        text: part of the exception's message, in any case.
        key: the record's key, as text.
        states: the states of their requests.
    """

    ids: frozenset[str] = frozenset()
    reasons: frozenset[str] = frozenset()
    codes: frozenset[str] = frozenset()
    classes: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
    messages: frozenset[str] = frozenset()
    since_ms: int | None = None
    until_ms: int | None = None
    text: str | None = None
    key: str | None = None
    states: frozenset[LetterState] = frozenset()

    def words(self) -> str:
        """Return it as a person reads it, from outside and not made printable.

        >>> LetterFilter(topics=frozenset({"pay"}), text="timed out").words()
        "topics pay, text 'timed out'"
        >>> LetterFilter(since_ms=0, until_ms=1).words()  # no part of a moment is lost
        'since 1970-01-01T00:00:00Z, until 1970-01-01T00:00:00.001Z'
        """
        given = [(field.name, getattr(self, field.name)) for field in fields(self)]
        return ", ".join(_words(*one) for one in given if one[1] not in _NOTHING) or "all"

    def ends(self) -> dict[str, str]:
        """Return the ends of its stretch of time that it has, by their options, exact.

        >>> LetterFilter(until_ms=5).ends()
        {'until': '1970-01-01T00:00:00.005Z'}
        """
        both = {"since": self.since_ms, "until": self.until_ms}
        return {name: iso(at) for name, at in both.items() if at is not None}

    def takes(self, letter: Letter) -> bool:
        """Whether the letter's own fields match."""
        failure = letter.failure
        return (
            (not self.ids or letter.request_id in self.ids)
            and (not self.reasons or failure.reason in self.reasons)
            and (not self.codes or failure.code in self.codes)
            and (not self.classes or self._takes_class(failure.exception_class))
            and (not self.topics or letter.topic in self.topics)
            and (not self.messages or message_kind(failure.exception_message) in self.messages)
            and (self.since_ms is None or letter.failed_at >= self.since_ms)
            and (self.until_ms is None or letter.failed_at < self.until_ms)
            and self._takes_text(failure.exception_message)
            and (self.key is None or letter.key == self.key.encode())
        )

    def to_json(self) -> str:
        """Return it as text that `from_json` reads."""
        given = {name: value for name, value in asdict(self).items() if value not in _NOTHING}
        return json.dumps(
            {
                name: sorted(value) if isinstance(value, frozenset) else value
                for name, value in given.items()
            }
        )

    @classmethod
    def from_json(cls, text: str) -> LetterFilter:
        """Return the filter that `to_json` wrote.

        Raises:
            ValueError: the text was not written by `to_json`.
        """
        given = json.loads(text)
        unknown = set(given) - {field.name for field in fields(cls)}
        if unknown:
            raise ValueError(f"a filter has no {', '.join(sorted(unknown))}")
        values: dict[str, Any] = {
            name: frozenset(value) if isinstance(value, list) else value
            for name, value in given.items()
        }
        values["states"] = frozenset(LetterState(one) for one in values.get("states", ()))
        return cls(**values)

    def _takes_class(self, error_class: str | None) -> bool:
        return error_class in self.classes or simple_name(error_class) in self.classes

    def _takes_text(self, message: str | None) -> bool:
        return self.text is None or self.text.casefold() in (message or "").casefold()


_NOTHING: tuple[object, ...] = (None, frozenset())


def _words(name: str, value: Any) -> str:
    if name == "ids":
        return f"{len(value):,} ids"
    if isinstance(value, frozenset):
        return f"{name} {' or '.join(sorted(map(str, value)))}"
    if name.endswith("_ms"):
        return f"{name.removesuffix('_ms')} {iso(value)}"
    return f"{name} {value!r}"
