"""The ledger is true: what it quotes is said, and what it names is there to turn red."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.documents import DOCS, documents
from tests.promises.__main__ import table
from tests.promises.ledger import (
    CONTRACT,
    README,
    BadLine,
    Kind,
    Promise,
    Proof,
    promises_of,
    read,
)
from tests.promises.proofs import exists

FILES = (README, CONTRACT)
# Of the tables that are made from the code.
SENTENCES = DOCS / "meanings"
# Figures that are measured by hand, with the command that stands beside them.
MOST_OPEN = 4


def _spaced(text: str) -> str:
    return re.sub(r"\s+", " ", text)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_promise_has_something_that_turns_red(path: Path) -> None:
    assert [one.sentence for one in read(path) if not one.proofs] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_test_property_and_row_that_is_named_is_there(path: Path) -> None:
    named = {str(proof): exists(proof) for one in read(path) for proof in one.proofs}
    assert [name for name, is_there in named.items() if not is_there] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_sentence_that_is_quoted_stands_in_a_document(path: Path) -> None:
    texts = [*documents().values(), *(one.read_text("utf-8") for one in SENTENCES.glob("*.toml"))]
    said = _spaced("\n".join(texts))
    assert [one.sentence for one in read(path) if _spaced(one.sentence) not in said] == []


def test_every_page_that_promises_something_is_in_the_ledger() -> None:
    titles = {
        text.partition("\n")[0].removeprefix("# ")
        for place, text in documents().items()
        if place.startswith(PROMISING) and not place.endswith("index.md")
    }
    parts = {one.part for one in read(README)}
    assert sorted(titles - parts - _WITHOUT_PROMISE) == []


PROMISING = ("docs/tutorials/", "docs/how-to/", "docs/explanation/")
# What is said under another page's promises, or only shown how.
_WITHOUT_PROMISE = frozenset(
    {
        "Beside other tools",
        "How it works",
        "Migrating from another tool",
        "On a cluster",
        "Scaling out, on paper",
        "Sizes",
        "Troubleshooting by symptom",
    }
)


def test_few_promises_are_watched_over_by_nobody() -> None:
    nobodys = [
        one.sentence
        for path in FILES
        for one in read(path)
        if {proof.kind for proof in one.proofs} == {Kind.OPEN}
    ]
    assert len(nobodys) <= MOST_OPEN, nobodys


def test_no_promise_is_written_twice() -> None:
    sentences = [(path.stem, one.part, one.sentence) for path in FILES for one in read(path)]
    assert sorted({one for one in sentences if sentences.count(one) > 1}) == []


def test_sentences_that_stand_together_share_their_proofs() -> None:
    lines = ["# a", "one", "two", "    test x", "    chaos y", "three", "    open nobody can"]
    proofs = (Proof(Kind.TEST, "x"), Proof(Kind.CHAOS, "y"))
    assert list(promises_of(lines)) == [
        Promise("a", "one", proofs),
        Promise("a", "two", proofs),
        Promise("a", "three", (Proof(Kind.OPEN, "nobody can"),)),
    ]


def test_a_line_that_proves_nothing_is_refused() -> None:
    with pytest.raises(BadLine):
        list(promises_of(["one", "    hope it works"]))


def test_what_is_not_there_is_not_taken_for_a_proof() -> None:
    here = "tests/promises/test_ledger.py"
    assert exists(Proof(Kind.TEST, f"{here}::test_a_line_that_proves_nothing_is_refused"))
    missing = (f"{here}::test_of_a_dream", "tests/nowhere.py::test_x", f"{here}::_spaced")
    assert not any(exists(Proof(Kind.TEST, one)) for one in missing)
    assert not exists(Proof(Kind.PROPERTY, "all is well"))
    assert not exists(Proof(Kind.CHAOS, "rain"))


def test_the_table_has_a_line_for_each_promise() -> None:
    promises = read(CONTRACT)
    assert len(list(table(promises))) == 2 + len(promises)
