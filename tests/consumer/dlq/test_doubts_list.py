"""Doubts are filtered, counted and listed as letters are. Pure."""

import json
import shlex
from typing import Any

import pytest

from consumer.dlq.doubts_list import (
    doubt_lines,
    doubts_json,
    found_doubts,
    resolve_commands,
)
from consumer.dlq.doubts_page import doubts_page
from consumer.dlq.filter import LetterFilter
from consumer.journal.records import JournalState, Row
from tests.consumer.dlq.samples import FAILED_AT
from tests.consumer.dlq.test_pages import drawn
from tests.consumer.journal.samples import row

HOSTILE = "\x1b[2Jowned\n; rm -rf /"


def doubt(request_id: str, **changes: Any) -> Row:
    facts = {
        "state": JournalState.IN_DOUBT,
        "code": "WORKER_DIED",
        "message": "its worker died in its effect",
        "message_key": b"card-1",
        "finished_at": FAILED_AT,
    }
    return row(request_id, **facts | changes)


ROWS = [
    doubt("a"),
    doubt("b", finished_at=FAILED_AT + 5, code="TIME_LIMIT", message_key=None),
    doubt("c", finished_at=FAILED_AT + 3, topic="refunds", message="no answer"),
]


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        (LetterFilter(), ["b", "c", "a"]),
        (LetterFilter(reasons=frozenset({"WORKER_DIED"})), ["c", "a"]),
        (LetterFilter(codes=frozenset({"TIME_LIMIT"})), ["b"]),
        (LetterFilter(topics=frozenset({"refunds"})), ["c"]),
        (LetterFilter(key="card-1"), ["c", "a"]),
        (LetterFilter(since_ms=FAILED_AT + 1, until_ms=FAILED_AT + 5), ["c"]),
        (LetterFilter(text="NO ANSWER"), ["c"]),
        (LetterFilter(ids=frozenset({"a"})), ["a"]),
    ],
)
def test_a_filter_of_letters_chooses_doubts_the_newest_first(
    chosen: LetterFilter, names: list[str]
) -> None:
    found = found_doubts(ROWS, chosen, limit=10)
    assert [one.request_id for one in found.newest] == names
    assert found.counts.shown == len(names)


def test_all_are_counted_and_the_newest_are_listed() -> None:
    found = found_doubts(ROWS, LetterFilter(), limit=1)
    listed, last = (json.loads(line) for line in doubts_json(found, config=None))
    assert (listed["request_id"], listed["code"], listed["state"]) == (
        "b",
        "TIME_LIMIT",
        "in_doubt",
    )
    assert (listed["topic"], listed["failed_at"], listed["key"]) == (
        "payments",
        FAILED_AT + 5,
        None,
    )
    assert last["summary"]["codes"] == {"WORKER_DIED": 2, "TIME_LIMIT": 1}
    text = "\n".join(drawn(doubts_page(found), width=100))
    assert text.startswith("3 open doubts, ") and "2 older ones are not listed" in text
    nothing = found_doubts([], LetterFilter(), limit=1)
    assert drawn(doubts_page(nothing), width=100) == ["0 open doubts"]
    assert list(doubt_lines(nothing, config=None)) == []


def test_a_doubt_stands_there_with_the_commands_that_end_it() -> None:
    (_, facts, message, *commands) = doubt_lines(
        found_doubts([doubt("-n;`x`", message=HOSTILE)], LetterFilter(), limit=1), config="a b.toml"
    )
    for part in ("2023-11-14 22:13:25Z", "payments", "key card-1", "WORKER_DIED"):
        assert part in facts
    assert message.isprintable()
    for how, command in zip(("--succeeded", "--failed"), commands, strict=True):
        given = ["onceward-dlq", "resolve", "--config", "a b.toml", how]
        given += ["--run", "1", "--because", ""]
        assert shlex.split(command) == [*given, "--", "-n;`x`"]
    assert len(resolve_commands(doubt("a"), config=None)) == 2
