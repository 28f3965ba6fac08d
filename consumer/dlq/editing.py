"""A letter's value as a person edits it, and back. Pure.

A form shows a text and sends it, so it is shown as it will be sent: JSON is laid out, with the
characters that nobody sees written out, and sent without its layout. A text that a form cannot keep
is not edited there: browsers change line ends, and pages the characters that turn its direction.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from difflib import unified_diff
from itertools import takewhile
from operator import eq
from urllib.parse import quote_plus

from consumer.dlq.as_json import utf8_or_none
from consumer.dlq.decoded import is_json, reindented, without_layout
from feedback.console.printable import printable

# As a form sends it: a character of three bytes takes nine.
LONGEST = 600_000
# Beyond, the program takes long to compare: all lines from the first change to the last one differ.
MOST_LINES = 2000
# Nobody pastes a longer word.
LONGEST_WORD = 4000
FILE = "value"


class NotEditable(Exception):
    """A form cannot hold the value."""


def editable(value: bytes | None) -> str:
    """Return a value as a form holds it.

    >>> print(editable(b'{"to":"Zo","n":1.10}'))
    {
      "to": "Zo",
      "n": 1.10
    }

    Raises:
        NotEditable: it is no text, or one that a form does not keep.
    """
    text = utf8_or_none(value)
    if text is None:
        raise NotEditable("its value is null" if value is None else "its value is no text")
    return _laid_out(text)


def edited(text: str) -> bytes:
    """Return the value that the text of a form stands for.

    >>> edited(editable(b'{"to":"Zo","n":1.10}'))
    b'{"to":"Zo","n":1.10}'

    Raises:
        NotEditable: nobody would see it as it is sent.
    """
    _laid_out(text)
    return (without_layout(_written_out(text)) if is_json(text) else text).encode()


def changes(before: str, after: str) -> list[str]:
    """Return the lines that differ, each behind its sign; nothing where none does.

    >>> changes("a\\nb", "a\\nc")
    ['@@ -1,2 +1,2 @@', ' a', '-b', '+c']
    """
    old, new = before.split("\n"), after.split("\n")
    if before != after and max(len(old), len(new)) > MOST_LINES:
        head = _alike(old, new)
        old, new = old[head:], new[head:]
        behind = len(old) - _alike(old[::-1], new[::-1])
        new = new[: len(new) - (len(old) - behind)]
        return ["-" + line for line in old[:behind]] + ["+" + line for line in new]
    return [*unified_diff(old, new, lineterm="")][2:]


def _alike(some: Sequence[str], others: Sequence[str]) -> int:
    """Return how many lines are the same from the beginning on."""
    return sum(takewhile(bool, map(eq, some, others)))


def value_words(value: bytes) -> tuple[str, str]:
    """Return the option that gives a value to `onceward-dlq redrive`: as a word, or from a file.

    >>> value_words(b'{"n":1}'), value_words(b"a\\nb")
    (('--value', '{"n":1}'), ('--value-file', 'value'))
    """
    text = value.decode()
    is_word = len(value) <= LONGEST_WORD and text.isprintable()
    return ("--value", text) if is_word else ("--value-file", FILE)


def _laid_out(text: str) -> str:
    if is_json(text):
        bare = without_layout(_written_out(text))
        text = reindented(bare, limit=LONGEST)
        # It is cut where it grew beyond.
        if without_layout(text) != bare:
            raise NotEditable("its value is too long for a form")
    elif printable(text, also="\n\t") != text:
        raise NotEditable("its value has characters that a form does not keep or show")
    if len(quote_plus(text.replace("\n", "\r\n"))) > LONGEST:
        raise NotEditable("its value is too long for a form")
    return text


def _written_out(text: str) -> str:
    r"""Return JSON with the characters that nobody sees written out; blanks between stay.

    >>> print(_written_out('{"a":"\u202e"}'))
    {"a":"\u202e"}
    """
    if text.isprintable():
        return text
    kept = (one if one.isprintable() or one in "\n\r\t" else json.dumps(one)[1:-1] for one in text)
    return "".join(kept)
