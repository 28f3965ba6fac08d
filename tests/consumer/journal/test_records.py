"""What is written is what is read, whatever it holds; and records that are refused."""

from __future__ import annotations

import pytest

from consumer.journal import Journal, JournalState, VerdictKind, Work
from tests.consumer.journal.samples import claim, finish, kinds, new_id, refusal, row_of

HOSTILE = (
    "it's",
    'say "no"',
    "100%",
    "%s %(batch)s",
    ":batch",
    "{}",
    "{0}",
    "\\",
    "\\u0041",
    "a;--",
    "$1 ?",
    "ünïcødé 漢字 😀",
    "[]",
    "null",
    "",
)


def test_hostile_text_is_data(journal: Journal) -> None:
    claims = [claim(text, key=text.encode()) for text in HOSTILE]
    assert kinds(journal.apply(Work(claims=claims))) == [VerdictKind.RUN] * len(HOSTILE)
    applied = journal.apply(
        Work(finishes=[finish(text, code=text, message=text, result=text) for text in HOSTILE])
    )
    assert len(applied.finished) == len(HOSTILE)
    rows = [verdict.row for verdict in journal.apply(Work(claims=claims)).verdicts]
    assert [
        (row.request_id, row.code, row.message, row.result, row.message_key)
        for row in rows
        if row is not None
    ] == [(text, text, text, text, text.encode()) for text in HOSTILE]


@pytest.mark.parametrize("key", [None, b"", b"\x00\xff\x27"])
def test_the_key_is_kept_as_bytes_and_none_is_not_empty(
    journal: Journal, key: bytes | None
) -> None:
    name = new_id()
    journal.apply(Work(claims=[claim(name, key=key)]))
    assert row_of(journal.apply(Work(claims=[claim(name)]))).message_key == key


def test_offsets_and_times_have_64_bits(journal: Journal) -> None:
    name = new_id()
    journal.apply(
        Work(claims=[claim(name, offset=2**63 - 1, deadline_at=2**63 - 1, attempt=2**40)])
    )
    stored = row_of(journal.apply(Work(claims=[claim(name)])))
    assert (stored.offset, stored.deadline_at, stored.attempt) == (2**63 - 1, 2**63 - 1, 2**40)


def test_a_refused_record_leaves_a_failed_row_once(journal: Journal) -> None:
    names = [new_id(), new_id()]
    refusals = [refusal(names[1]), refusal(names[0]), refusal(names[1], message="again")]
    first = journal.apply(Work(refusals=refusals)).refusals
    assert [row.request_id for row in first] == [names[1], names[0], names[1]]
    assert {(row.state, row.code, row.resend) for row in first} == {
        (JournalState.FAILED, "INVALID_MESSAGE", False)
    }
    assert (first[0].message, first[0].claimed_at) == ("no id", None)
    assert first[0].finished_at is not None
    assert journal.apply(Work(refusals=refusals)).refusals == first


def test_a_refusal_never_touches_the_row_of_a_request(journal: Journal) -> None:
    name = new_id()
    claimed = row_of(journal.apply(Work(claims=[claim(name)])))
    assert journal.apply(Work(refusals=[refusal(name)])).refusals == (claimed,)
