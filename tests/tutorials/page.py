"""The steps of a tutorial, as its page shows them, and the comparison of outputs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

ELLIPSIS = "…"
_BLOCK = re.compile(
    r"(?:<!-- terminal: (?P<terminal>\w+) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)```", re.DOTALL
)
_FILE = re.compile(r"# (?P<name>[\w-]+\.(?:py|toml))\b")
# A time that a command measured, in seconds and tenths: the machine decides about it.
_MEASURED = re.compile(r"\b\d+\.\d(?= s\b)")
# A shell says this of a job whenever it notices.
_JOB_ENDED = re.compile(r"(?:bash: line \d+: +\d+|\[\d+\]\S*) +(?:Killed|Terminated|Done)\b")


class BadPage(Exception):
    """A block of a page that says nothing to do."""


@dataclass(frozen=True, slots=True)
class File:
    """A file that the reader writes."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """A line that the reader types, and the output shown below it.

    Attributes:
        terminal: the terminal of its own in which it runs on; empty in the reader's first one.
    """

    line: str
    output: str
    terminal: str = ""


def steps(text: str) -> Iterator[File | Command]:
    """Yield the steps of a page in their order.

    >>> list(steps("```python\\n# a.py\\n```\\n```console\\n$ echo a\\na\\n```"))
    [File(name='a.py', text='# a.py\\n'), Command(line='echo a', output='a\\n', terminal='')]

    Raises:
        BadPage: a block is neither a file nor commands.
    """
    for block in _BLOCK.finditer(text):
        if block["language"] == "console":
            yield from _commands(block["text"], block["terminal"] or "")
        elif block["language"] in ("python", "toml"):
            named = _FILE.match(block["text"])
            if named is None:
                raise BadPage(f"no file's name in the first line of {block['text']!r}")
            yield File(named["name"], block["text"])


def _commands(text: str, terminal: str) -> Iterator[Command]:
    before, *typed = re.split(r"^\$ ", text, flags=re.MULTILINE)
    if before or not typed:
        raise BadPage(f"a block of console begins with a command: {text!r}")
    for one in typed:
        line, _, output = one.partition("\n")
        yield Command(line, output, terminal)


def is_as_shown(shown: str, printed: str) -> bool:
    """Tell whether an output is the one that the page shows.

    >>> is_as_shown("order-7  FAILED …", "order-7 FAILED  BAD_AMOUNT\\n")
    True
    >>> is_as_shown("a\\n…\\nc", "a\\nb\\nb\\nc"), is_as_shown("a\\nc", "a\\nb\\nc")
    (True, False)
    >>> is_as_shown("after 10.0 s", "after 10.1 s"), is_as_shown("after 10.0 s", "before 10.1 s")
    (True, False)
    """
    return re.fullmatch(_pattern(shown), _lines(printed)) is not None


def has_come(shown: str, printed: str) -> bool:
    """Tell whether the lines that the page shows are there, with others before and behind them.

    >>> has_come("a …", "x\\na b\\nc"), has_come("a …", "x\\nb")
    (True, False)
    """
    return re.search(_pattern(shown), _lines(printed)) is not None


def _pattern(shown: str) -> str:
    lines = [
        r"(?:[^\n]*\n)*?" if line == ELLIPSIS else _pattern_of_line(line) + "\n"
        for line in _lines(shown).splitlines()
    ]
    return "".join(lines)


def _pattern_of_line(line: str) -> str:
    return r"[^\n]*".join(map(re.escape, line.split(ELLIPSIS)))


def _lines(text: str) -> str:
    lines = (_MEASURED.sub("0.0", " ".join(line.split())) for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line and not _JOB_ENDED.match(line))
