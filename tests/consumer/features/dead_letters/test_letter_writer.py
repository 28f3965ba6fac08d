"""How a page of failures is written, and what is in the way of single letters."""

from __future__ import annotations

import pytest

from consumer.features.dead_letters.letter import ROOM_BYTES, TRIMS
from consumer.features.dead_letters.letter_writer import LetterWriter
from consumer.features.outgoing import record_writer as module
from consumer.features.outgoing.recent_runs import RecentFailures
from consumer.features.outgoing.record_writer import PageResults
from consumer.journal.waiting import OwedRow
from consumer.pool.outcome import RaisedError
from feedback.errors import KafkaUnavailable
from feedback.kafka.outgoing import NotAcknowledged, Outgoing, RecordRefused, RecordTooLarge
from feedback.kafka.topics import TopicMissing
from tests.consumer.features.dead_letters.samples import Payloads, Topics, Writer, dead
from tests.consumer.samples import record


class Desk:
    """A writer of letters and all that it stands on."""

    def __init__(self, *offsets: int) -> None:
        self.recent = RecentFailures()
        self.payloads = Payloads(*(record(offset=offset) for offset in offsets))
        self.topics = Topics()
        self.writer = Writer()
        self.is_stopping = False
        self.page_writer = LetterWriter(
            group="shop",
            recent=self.recent,
            payloads=self.payloads,
            topics=self.topics,
            writer=self.writer,
            stopping=lambda: self.is_stopping,
        )

    def post(self, *page: OwedRow) -> PageResults:
        """Write a page; return all that became of it."""
        whole = PageResults()
        for one in self.page_writer.post(page):
            whole.written += one.written
            whole.gone += one.gone
            whole.closed |= one.closed
            whole.refused |= one.refused
        return whole


def ids(rows: list[object]) -> list[str]:
    return [one.request_id for one in rows]  # type: ignore[attr-defined]


def sized(outgoing: Outgoing) -> int:
    return sum(len(name) + len(value) for name, value in outgoing.headers)


def test_a_failure_becomes_a_record_of_its_dead_letter_topic() -> None:
    desk = Desk(17)
    assert ids(desk.post(dead("a")).written) == ["a"]  # type: ignore[arg-type]
    (written,) = desk.writer.taken
    assert (written.topic, written.partition) == ("payments.shop.dlq", 3)
    assert (written.key, written.value) == (record().key, record().value)
    assert desk.topics.made == [("payments.shop.dlq", "payments", ROOM_BYTES)]


def test_what_the_worker_remembers_is_not_read_again_and_tells_more() -> None:
    desk = Desk()
    desk.recent.failed(("a", 1), record(value=None), RaisedError("E", "stack"))
    desk.post(dead("a"))
    (written,) = desk.writer.taken
    assert written.value is None
    assert dict(written.headers)["DLQ_STACKTRACE"] == b"stack"
    assert desk.payloads.asked == 0


def test_of_another_generation_nothing_is_remembered() -> None:
    desk = Desk(17)
    desk.recent.failed(("a", 1), record(value=None), RaisedError("E", "stack"))
    desk.post(dead("a", generation=2))
    assert "DLQ_STACKTRACE" not in dict(desk.writer.taken[0].headers)


def test_a_failure_whose_payload_is_gone_is_named_and_nothing_is_written() -> None:
    desk = Desk(17)
    posted = desk.post(dead("gone", offset=99), dead("a"))
    assert (ids(posted.gone), ids(posted.written)) == (["gone"], ["a"])  # type: ignore[arg-type]


def test_a_topic_that_is_missing_keeps_its_letters_and_no_others() -> None:
    desk = Desk(17)
    desk.topics.missing["payments.shop.dlq"] = TopicMissing("no topic")
    posted = desk.post(dead("a"), dead("b", topic="orders"), dead("c"))
    assert (ids(posted.written), posted.closed) == (["b"], {"payments": "no topic"})  # type: ignore[arg-type]
    assert [one.topic for one in desk.writer.taken] == ["orders.shop.dlq"]


def test_a_payload_that_cannot_be_read_now_is_asked_for_once() -> None:
    desk = Desk(17)
    desk.payloads.error = KafkaUnavailable("no broker")
    posted = desk.post(dead("a"), dead("b"))
    assert (posted.closed, desk.payloads.asked) == ({"payments": "no broker"}, 1)


def test_a_topic_that_is_away_is_looked_up_anew_the_next_time() -> None:
    desk = Desk(17)
    desk.writer.judge = lambda one: NotAcknowledged("no leader")
    posted = desk.post(dead("a"))
    assert (posted.written, posted.closed) == ([], {"payments": "no leader"})
    assert desk.topics.forgotten == ["payments.shop.dlq"]


def test_a_letter_that_is_too_large_loses_its_texts_before_it_is_given_up() -> None:
    desk = Desk()
    for name, trim in zip("abcd", TRIMS, strict=True):
        desk.recent.failed((name, 1), record(value=name.encode()), RaisedError("E", "s" * 8192))
        assert trim.stack_bytes <= 8192
    limits = {b"a": 20_000, b"b": 3000, b"c": 700, b"d": 10}

    def judge(one: Outgoing) -> KafkaUnavailable | None:
        assert one.value is not None
        return RecordTooLarge("too large") if sized(one) > limits[one.value] else None

    desk.writer.judge = judge
    posted = desk.post(*(dead(name, message="m" * 500) for name in "abcd"))
    assert ids(posted.written) == ["a", "b", "c"]  # type: ignore[arg-type]
    assert list(posted.refused) == ["payments"] and posted.closed == {}
    assert "max.message.bytes" in posted.refused["payments"]
    assert desk.writer.calls == [4, 3, 2, 1]
    whole, cut, bare = ({name for name, _ in one.headers} for one in desk.writer.taken)
    assert ("DLQ_CUT" in whole, "DLQ_CUT" in cut) == (False, True)
    assert ("DLQ_STACKTRACE" in cut, "DLQ_STACKTRACE" in bare) == (True, False)


def test_a_letter_that_is_refused_costs_the_others_nothing() -> None:
    desk = Desk(1, 2, 3)
    desk.writer.judge = lambda one: (
        RecordRefused("a policy") if ("ORIGINAL_OFFSET", b"2") in one.headers else None
    )
    posted = desk.post(*(dead(str(offset), offset=offset) for offset in (1, 2, 3)))
    assert (ids(posted.written), posted.refused) == (["1", "3"], {"payments": "a policy"})  # type: ignore[arg-type]


def test_what_is_on_its_way_at_once_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_BYTES", 2 * len(record().value or b"") + 1)
    desk = Desk(17)
    posted = list(desk.page_writer.post([dead(str(number)) for number in range(5)]))
    assert [len(one.written) for one in posted] == [2, 2, 1]
    assert desk.writer.calls == [2, 2, 1]


def test_who_is_stopping_leaves_the_rest() -> None:
    desk = Desk(17)
    desk.is_stopping = True
    assert desk.post(dead("a")).written == []
    assert desk.writer.calls == []
