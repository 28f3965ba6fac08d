"""The ledger as it is written: sentences, and below them what watches over them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

HERE = Path(__file__).parent
README = HERE / "readme.txt"
CONTRACT = HERE / "contract.txt"


class Kind(StrEnum):
    """What can watch over a promise."""

    TEST = "test"
    PROPERTY = "property"
    CHAOS = "chaos"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Proof:
    """Something that turns red, or why nothing does."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Promise:
    """One sentence.

    Attributes:
        part: the heading that it stands under.
        proofs: what turns red when it is broken.
    """

    part: str
    sentence: str
    proofs: tuple[Proof, ...]


class BadLine(Exception):
    """A line of the ledger that says nothing."""


def read(path: Path) -> list[Promise]:
    """Return the promises of a file.

    Raises:
        BadLine: it cannot be read.
    """
    return list(promises_of(path.read_text("utf-8").splitlines()[1:]))


def promises_of(lines: Sequence[str]) -> Iterator[Promise]:
    """Yield what these lines promise.

    >>> [one] = promises_of(["# Order", "", "keys keep it", "    chaos zombie"])
    >>> one.part, one.sentence, *map(str, one.proofs)
    ('Order', 'keys keep it', 'chaos zombie')

    Raises:
        BadLine: one of them cannot be read.
    """
    part, sentences, proofs = "", list[str](), list[Proof]()
    for line in (*lines, "#"):
        if line.startswith("    "):
            proofs.append(_proof(line))
        elif line:
            if proofs or line.startswith("#"):
                yield from (Promise(part, one, tuple(proofs)) for one in sentences)
                sentences, proofs = [], []
            if line.startswith("#"):
                part = line.removeprefix("#").strip()
            else:
                sentences.append(line)


def _proof(line: str) -> Proof:
    kind, _, name = line.strip().partition(" ")
    if kind not in tuple(Kind) or not name:
        raise BadLine(line.strip())
    return Proof(Kind(kind), name)
