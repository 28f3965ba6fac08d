"""What a wait record says comes back as it was, and what others have written is understood."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.features.waits.wait_record import (
    EXPIRES,
    GENERATION,
    HOLDER,
    STATUS,
    Tombstone,
    WaitRecord,
    decode_wait,
    encode_wait,
    source_topic,
    tombstone,
    wait_topic,
)
from feedback.errors import InvalidMessage
from feedback.kafka.outgoing import Outgoing
from feedback.records.envelope import Record
from feedback.records.failure_headers import ORIGINAL_OFFSET, ORIGINAL_PARTITION, ORIGINAL_TOPIC

GROUP = "bank"

headers = st.lists(
    st.tuples(st.sampled_from(["a", ORIGINAL_TOPIC, EXPIRES, HOLDER, "é"]), st.binary(max_size=8)),
    max_size=5,
).map(tuple)
requests = st.builds(
    Record,
    topic=st.just("payments"),
    partition=st.integers(0, 100),
    offset=st.integers(0, 2**63 - 1),
    timestamp_ms=st.integers(-1, 2**40),
    key=st.none() | st.binary(max_size=20),
    value=st.none() | st.binary(max_size=20),
    headers=headers,
)


def as_read(written: Outgoing, *, partition: int = 3) -> Record:
    return Record(
        written.topic, partition, 7, 1000, written.key, written.value, tuple(written.headers)
    )


@given(record=requests, holder=st.none() | st.text(max_size=20), expires=st.integers(0, 2**47))
def test_a_request_comes_back_as_it_was_read(
    record: Record, holder: str | None, expires: int
) -> None:
    wait = WaitRecord("id-1", 4, holder, expires, record, "marked", "park")
    found = decode_wait(as_read(encode_wait(wait, group=GROUP)), group=GROUP)
    if holder is None and any(name == HOLDER for name, _ in record.headers):
        assert isinstance(found, WaitRecord)  # what is not said by us may be said by what was sent
        found = found._replace(holder=None)
    assert found == wait


@pytest.mark.parametrize("empty", [None, b""], ids=["null", "empty"])
def test_a_null_value_is_no_tombstone_and_not_an_empty_one(empty: bytes | None) -> None:
    record = Record("payments", 0, 1, 5, b"k", empty, ())
    written = encode_wait(WaitRecord("id-1", 1, "w", 10, record), group=GROUP)
    assert written.value is not None
    found = decode_wait(as_read(written), group=GROUP)
    assert isinstance(found, WaitRecord)
    assert found.record.value == empty


def test_a_tombstone_says_that_the_request_has_ended() -> None:
    written = tombstone(
        "id-1",
        topic="payments",
        group=GROUP,
        generation=1,
        worker="w",
        status="SUCCEEDED",
    )
    assert (written.topic, written.partition, written.value) == ("payments.bank.wait", None, None)
    assert decode_wait(as_read(written), group=GROUP) == Tombstone("id-1")


@pytest.mark.parametrize(
    ("status", "generation", "taking"),
    [("", b"2", 2), ("FAILED", b"2", 0), ("", b"many", 0), ("", b"%d" % 2**62, 0)],
)
def test_a_tombstone_without_a_status_ends_one_taking(
    status: str, generation: bytes, taking: int
) -> None:
    headers = ((GENERATION, generation), (STATUS, status.encode()))
    written = Record("payments.bank.wait", 3, 7, 1000, b"id-1", None, headers)
    assert decode_wait(written, group=GROUP) == Tombstone("id-1", taking)


def test_one_that_was_written_by_hand_needs_a_key_and_an_expiry() -> None:
    record = Record("payments.bank.wait", 3, 7, 1000, b"id-1", b"v", ((EXPIRES, b"50"),))
    assert decode_wait(record, group=GROUP) == WaitRecord(
        "id-1", 1, None, 50, Record("payments", 3, 0, -1, None, b"v", ())
    )


@pytest.mark.parametrize(
    ("key", "said"),
    [
        pytest.param(None, ((EXPIRES, b"50"),), id="no key"),
        pytest.param(b"two words", ((EXPIRES, b"50"),), id="no id"),
        pytest.param(b"\xff", ((EXPIRES, b"50"),), id="no text"),
        pytest.param(b"id-1", (), id="no expiry"),
        pytest.param(b"id-1", ((EXPIRES, b"soon"),), id="no number"),
        pytest.param(b"id-1", ((EXPIRES, b"-5"),), id="negative"),
        pytest.param(b"id-1", ((EXPIRES, b"50"), (ORIGINAL_OFFSET, b"9" * 19)), id="too large"),
        pytest.param(
            b"id-1", ((EXPIRES, b"50"), (ORIGINAL_PARTITION, b"%d" % 2**31)), id="no partition"
        ),
        pytest.param(b"id-1", ((EXPIRES, b"50"), (GENERATION, b"%d" % 2**62)), id="no next one"),
    ],
)
def test_what_is_none_is_refused_and_nothing_of_it_is_shown(
    key: bytes | None, said: tuple[tuple[str, bytes], ...]
) -> None:
    record = Record("payments.bank.wait", 3, 7, 1000, key, b"secret", said)
    with pytest.raises(InvalidMessage) as caught:
        decode_wait(record, group=GROUP)
    assert "secret" not in str(caught.value)


def test_of_one_by_hand_our_headers_are_left_out_wherever_they_stand() -> None:
    said = ((HOLDER, b"w"), ("a", b"1"), (EXPIRES, b"50"), ("b", b"2"), ("a", b"3"))
    found = decode_wait(Record("payments.bank.wait", 0, 7, 1000, b"id", b"v", said), group=GROUP)
    assert isinstance(found, WaitRecord)
    assert found.holder == "w"
    assert found.record.headers == (("a", b"1"), ("b", b"2"), ("a", b"3"))


def test_topics_of_other_groups_are_not_ours() -> None:
    assert source_topic(wait_topic("payments", "bank"), "bank") == "payments"
    assert source_topic(wait_topic("payments", "bank"), "shop") is None
    assert source_topic(".bank.wait", "bank") is None
