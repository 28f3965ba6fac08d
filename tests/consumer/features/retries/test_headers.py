"""What a record in a retry topic says is what was sent, and what is to run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.features.retries.headers import WakeUp, read_wakeup, wakeup_headers
from consumer.features.retries.retry_sender import wakeup_record
from consumer.handlers.backoff import Tiers
from feedback.errors import InvalidMessage
from feedback.records.envelope import Record, payload_sha256
from tests.consumer.samples import delivery, payments

HANDLER = payments(retry_on=(OSError,), retries=Tiers.parse("1s, 5s"))
NAMES = st.sampled_from(
    ["a", "traceparent", "ORIGINAL_TOPIC", "ORIGINAL_OFFSET", "DLQ_REASON", "onceward-due", "x"]
)
SENT = st.lists(st.tuples(NAMES, st.binary(max_size=20)), max_size=8).map(tuple)
BYTES = st.none() | st.binary(max_size=30)


def _wakeup(
    record: Record, *, offset: int = 2**40, delay_ms: int = 700, attempt: int = 3
) -> WakeUp:
    one = delivery("a", attempt)
    one = one._replace(
        record=record._replace(topic="payments", offset=offset),
        handler=HANDLER,
        deadline_at=1_800_000_000_000,
        payload_sha256=payload_sha256(record.key, record.value),
    )
    return WakeUp(one, 4, 1_700_000_005_000, delay_ms, "BANK_BUSY", "later", 2, 5, 9)


def _record(
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: tuple[tuple[str, bytes], ...] = (),
) -> Record:
    return Record("payments", 3, 2**40, 1_700_000_000_000, key, value, headers)


def _as_read(one: WakeUp) -> Record:
    sent = wakeup_record(one, group="g")
    return Record(sent.topic, 3, 77, 1_700_000_001_000, sent.key, sent.value, sent.headers)


@given(key=BYTES, value=BYTES, headers=SENT)
def test_what_comes_back_is_what_was_sent(
    key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes], ...]
) -> None:
    due = read_wakeup(_as_read(_wakeup(_record(key, value, headers))), HANDLER, now_s=5.0)
    assert due.due_at == 1_700_000_005_000
    one = due.delivery
    assert (one.record.key, one.record.value) == (key, value)
    assert (one.wakes, one.request_id, one.envelope.attempt) == (4, "a", 3)
    assert one.deadline_at == 1_800_000_000_000
    assert one.payload_sha256 == payload_sha256(key, value)
    assert one.record.topic == "payments"
    ours = {"onceward-request-id", "onceward-attempt", "onceward-deadline"}
    seen = [one for one in one.record.headers if one[0] not in ours]
    assert seen == [one for one in headers if not one[0].startswith("DLQ_")]


def test_a_wake_up_names_its_place_its_time_and_its_failure() -> None:
    headers = dict(wakeup_headers(_wakeup(_record()), group="g"))
    assert headers["onceward-due"] == b"1700000005000"
    assert headers["onceward-generation"] == b"4"
    assert headers["ORIGINAL_TOPIC"] == b"payments"
    assert (headers["ORIGINAL_PARTITION"], headers["ORIGINAL_OFFSET"]) == (b"3", b"%d" % 2**40)
    assert headers["ORIGINAL_TIMESTAMP"] == b"1700000000000"
    assert (headers["DLQ_REASON"], headers["DLQ_STAGE"]) == (b"BANK_BUSY", b"retry")
    assert (headers["DLQ_ATTEMPTS"], headers["DLQ_CONSUMER_GROUP"]) == (b"2", b"g")
    assert (headers["DLQ_FIRST_FAILED_AT"], headers["DLQ_FAILED_AT"]) == (b"5", b"9")


@pytest.mark.parametrize("name", ["ORIGINAL_TIMESTAMP", "onceward-timestamp"])
def test_the_next_run_sees_the_time_of_its_record_and_not_that_of_its_first_place(
    name: str,
) -> None:
    sent = ((name, b"5"),)
    due = read_wakeup(_as_read(_wakeup(_record(headers=sent))), HANDLER, now_s=5.0)
    assert due.delivery.record.timestamp_ms == 1_700_000_000_000


def test_of_a_dead_letter_that_is_handled_the_failure_stays_what_it_was() -> None:
    sent = (("DLQ_REASON", b"CARD_EXPIRED"), ("DLQ_ATTEMPTS", b"3"))
    one = _wakeup(_record(headers=sent))
    of_letters = payments(retries=HANDLER.retries, dead_letters_of="payments")
    one = one._replace(delivery=one.delivery._replace(handler=of_letters))
    due = read_wakeup(_as_read(one), of_letters, now_s=5.0)
    assert due.delivery.record.headers[:2] == sent


def test_the_first_original_wins_and_the_last_failure() -> None:
    sent = (("ORIGINAL_TOPIC", b"first"), ("DLQ_REASON", b"OLD"), ("DLQ_REDRIVE_COUNT", b"1"))
    headers = wakeup_headers(_wakeup(_record(headers=sent)), group="g")
    assert [value for name, value in headers if name == "ORIGINAL_TOPIC"] == [b"first"]
    assert [value for name, value in headers if name == "DLQ_REASON"] == [b"BANK_BUSY"]
    assert [value for name, value in headers if name == "DLQ_REDRIVE_COUNT"] == [b"1"]


@pytest.mark.parametrize(
    ("delay_ms", "topic"),
    [
        (0, "payments.g.retry.1s"),
        (1000, "payments.g.retry.1s"),
        (1001, "payments.g.retry.5s"),
        (9000, "payments.g.retry.5s"),
    ],
)
def test_a_drawn_delay_goes_to_the_topic_of_the_next_longer_one(delay_ms: int, topic: str) -> None:
    sent = wakeup_record(_wakeup(_record(), delay_ms=delay_ms), group="g")
    assert (sent.topic, sent.partition) == (topic, 3)


@pytest.mark.parametrize("missing", ["onceward-due", "onceward-generation", "onceward-deadline"])
def test_what_is_no_wake_up_of_ours_is_refused(missing: str) -> None:
    record = _as_read(_wakeup(_record()))
    headers = tuple(one for one in record.headers if one[0] != missing)
    with pytest.raises(InvalidMessage):
        read_wakeup(record._replace(headers=headers), HANDLER, now_s=0.0)
