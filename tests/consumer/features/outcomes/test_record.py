"""What the record of an outcome says, byte for byte."""

from __future__ import annotations

import json

import pytest

from consumer.features.outcomes.outcomes import ROOM_BYTES, OutcomeRecord, value_of
from consumer.features.outgoing.recent_runs import RecentEnds
from feedback.errors import InvalidMessage
from feedback.kafka.outgoing import Outgoing
from feedback.records.envelope import (
    OUTCOME_ID,
    Envelope,
    decode_headers,
    encode_headers,
    outcome_id,
)
from tests.consumer.samples import record, row

ENDED_AT = 1_700_000_005_000


def outcome(traceparent: bytes | None = None, **facts: object) -> OutcomeRecord:
    known = {"finished_at": ENDED_AT, "result": '{"a":1}', "message_key": b"k"} | facts
    ended = row("r-1", "SUCCEEDED", **known)
    return OutcomeRecord(ended, "told", "shop", traceparent)


def only(one: OutcomeRecord) -> Outgoing:
    (version,) = one.versions()
    return version


def test_it_says_how_the_request_ended_and_where_it_came_from() -> None:
    written = only(outcome(generation=3, attempt=2, code="C", message="é"))
    assert written.value is not None
    assert json.loads(written.value) == {
        "request_id": "r-1",
        "status": "SUCCEEDED",
        "code": "C",
        "message": "é",
        "attempt": 2,
        "generation": 3,
        "finished_at": ENDED_AT,
        "by": None,
        "group": "shop",
        "topic": "payments",
        "partition": 3,
        "offset": 17,
        "result": {"a": 1},
    }
    assert written.headers == (
        ("onceward-request-id", b"r-1"),
        ("onceward-status", b"SUCCEEDED"),
        ("onceward-generation", b"3"),
        ("onceward-outcome-id", b"r-1.outcome.3"),
    )


def test_the_result_is_not_read_and_written_anew() -> None:
    exact = '{"n": 1.10, "m":123456789012345678901234567890, "n": 2}'
    assert value_of(outcome(result=exact).row, "shop").endswith(f'"result":{exact}}}'.encode())
    assert json.loads(value_of(outcome(result=None).row, "shop"))["result"] is None


def test_the_trace_goes_on_where_it_is_known() -> None:
    assert only(outcome(b"00-1")).headers[-1] == ("traceparent", b"00-1")


def test_the_key_says_where_it_goes_and_without_one_the_requests_own_partition() -> None:
    by_key, without = only(outcome()), only(outcome(message_key=None))
    assert (by_key.key, by_key.partition) == (b"k", None)
    assert (without.key, without.partition) == (None, 3)


def test_what_stands_round_key_and_result_has_its_room() -> None:
    longest = outcome(
        b"t" * 256,
        topic="t" * 249,
        code="C" * 64,
        message="\\\u20ac" * 500,
        by="b" * 128,
        offset=2**63 - 1,
        result=None,
        message_key=None,
    )
    named = longest.row._replace(request_id="i" * 128)
    written = only(longest._replace(row=named, group="g" * 200, topic="o" * 249))
    assert written.value is not None
    around = sum(len(name) + len(value) for name, value in written.headers)
    assert len(written.value) + around < ROOM_BYTES


def test_an_id_that_would_be_too_long_becomes_its_hash() -> None:
    assert outcome_id("a", 2) == "a.outcome.2"
    assert outcome_id("a" * 128, 2).startswith("sha256-")
    assert outcome_id("a" * 128, 2) != outcome_id("a" * 128, 3)


def test_read_as_a_request_it_has_an_id_of_its_own_unless_it_is_sent_again() -> None:
    written = only(outcome(generation=2))
    read = record(headers=written.headers)
    assert decode_headers(read).request_id == "r-1.outcome.2"
    again = encode_headers(Envelope("r-1.outcome.2", 2, None), written.headers)
    assert decode_headers(record(headers=tuple(again))).request_id == "r-1.outcome.2"
    # As a redrive with another value leaves it: a request of its own.
    anew = encode_headers(Envelope("r-2", 1, None), written.headers)
    assert decode_headers(record(headers=tuple(anew))).request_id == "r-2"
    twice = (*written.headers, (OUTCOME_ID, b"other"))
    with pytest.raises(InvalidMessage, match="repeated"):
        decode_headers(record(headers=twice))


def test_news_wake_and_remember_traces_until_they_are_written() -> None:
    news = RecentEnds(["payments"], limit=2)
    for name in ("a", "b", "c"):
        news.ended((name, 1), record(headers=(("traceparent", name.encode()),)))
    assert news.news.is_set()
    known = [news.of((name, 1)) for name in ("a", "b", "c")]
    assert known == [None, b"b", b"c"]  # the oldest made room
    assert news.of(("b", 2)) is None
    news.forget([("b", 1), ("unknown", 1)])
    assert news.of(("b", 1)) is None
    news.forget_before(0.0)
    assert news.of(("c", 1)) == b"c"
    news.forget_before(10.0**12)
    assert news.of(("c", 1)) is None


def test_news_of_other_topics_wake_nobody_and_a_trace_that_is_none_is_not_kept() -> None:
    news = RecentEnds(["orders"])
    news.ended(("a", 1), record(headers=(("traceparent", b"00-1"),)))
    assert not news.news.is_set()
    news = RecentEnds(["payments"])
    news.ended(("a", 1), record(headers=(("traceparent", b"x" * 5000),)))
    assert news.news.is_set() and news.of(("a", 1)) is None
