"""What records of a wait topic change. Pure."""

from __future__ import annotations

from consumer.features.waits.registry.wait_rows import changes_of
from consumer.features.waits.wait_record import WaitRecord, encode_wait, tombstone
from feedback.kafka.outgoing import Outgoing
from feedback.records.envelope import Record

GROUP = "g"
WHERE = ("t", 0)


def _wait(request_id: str, *, holder: str | None = "w", generation: int = 1) -> Outgoing:
    record = Record("t", 0, 5, 1, b"k", b"v", ())
    return encode_wait(WaitRecord(request_id, generation, holder, 99, record), group=GROUP)


def _end(request_id: str) -> Outgoing:
    return tombstone(
        request_id, topic="t", partition=0, group=GROUP, generation=1, worker="w", status="FAILED"
    )


def _read(*written: Outgoing) -> list[Record]:
    return [
        Record(one.topic, 0, at, 1000 + at, one.key, one.value, one.headers)
        for at, one in enumerate(written)
    ]


def test_the_last_word_on_a_request_counts() -> None:
    changes = changes_of(
        _read(_wait("a"), _wait("b"), _wait("a", generation=2), _end("b"), _end("c"), _wait("c")),
        group=GROUP,
    )
    assert {one.request_id: one.offset for one in changes.unfinished} == {"a": 2, "c": 5}
    assert changes.ended == {"b": 3, "c": 4}
    assert changes.latest_ms == 1005


def test_nobody_and_not_said_are_the_same_and_no_database_refuses_a_holder() -> None:
    written = [_wait("a", holder=""), _wait("b", holder=None), _wait("c", holder="w\0" + "x" * 999)]
    holders = [one.holder for one in changes_of(_read(*written), group=GROUP).unfinished]
    assert holders[:2] == ["", ""]
    assert ("\0" in holders[2], len(holders[2])) == (False, 256)


def test_what_is_no_wait_record_is_named_and_the_rest_counts() -> None:
    broken = Outgoing("t.g.wait", 0, b"a", b"secret", ())
    changes = changes_of(_read(broken, _wait("b")), group=GROUP)
    assert [one.request_id for one in changes.unfinished] == ["b"]
    ((record, reason),) = changes.malformed
    assert (record.offset, "secret" in reason) == (0, False)
