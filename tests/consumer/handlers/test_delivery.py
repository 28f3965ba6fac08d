"""What a record asks for, and why it is refused."""

import pytest
from pydantic import BaseModel, ConfigDict, field_validator

from consumer.handlers.delivery import (
    Delivery,
    RefusedRecord,
    mismatch,
    mismatch_of_refused,
    receive,
    refused_delivery,
)
from consumer.loop import mapping
from feedback.records.envelope import Record
from tests.consumer.samples import SHA, TIMESTAMP_MS, VALUE, delivery, named, payments, record


class Payment(BaseModel):
    model_config = ConfigDict(extra="forbid")

    amount: int


def received(one: Record, **settings: object) -> Delivery | RefusedRecord:
    return receive(
        one, payments(**settings), group="test", default_deadline_s=60.0, now_s=5.0, now_ms=0
    )


def test_a_record_without_headers_is_the_first_attempt_of_the_request_of_its_coordinates() -> None:
    found = received(record())
    assert isinstance(found, Delivery)
    assert found.request_id == f"payments-3-17-{TIMESTAMP_MS}"
    assert (found.envelope.attempt, found.payload_sha256, found.buffered_s) == (1, SHA, 5.0)


def test_the_deadline_is_the_senders_else_the_handlers_else_the_default() -> None:
    sent = received(record(headers=(("onceward-deadline", b"5"),)), deadline_s=10.0)
    by_handler = received(record(), deadline_s=10.0)
    by_default = received(record())
    deadlines = [one.deadline_at for one in (sent, by_handler, by_default)]
    assert deadlines == [5, TIMESTAMP_MS + 10_000, TIMESTAMP_MS + 60_000]


def test_a_claim_says_of_what_time_a_record_is_that_names_no_deadline() -> None:
    named_one = received(record(headers=(("onceward-deadline", b"5"),)))
    timed, timeless = received(record()), received(record(timestamp_ms=-1))
    sent = [mapping.claim(one).sent_at for one in (named_one, timed, timeless)]  # type: ignore[arg-type]
    assert sent == [None, TIMESTAMP_MS, -1]


def test_malformed_headers_refuse_the_record_under_its_coordinates() -> None:
    found = received(record(headers=(("onceward-request-id", b"mine"), ("onceward-attempt", b"0"))))
    assert isinstance(found, RefusedRecord)
    assert found.request_id == f"payments-3-17-{TIMESTAMP_MS}"
    assert (found.code, found.attempt) == ("INVALID_MESSAGE", 1)
    assert "onceward-attempt" in found.message


def test_a_value_that_fits_the_model_is_a_delivery() -> None:
    assert isinstance(received(record(), model=Payment), Delivery)


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (None, "value: model_type"),
        (b"", "value: json_invalid"),
        (b'{"amount":"4111-1111"}', "amount: int_parsing"),
        (b"{}", "amount: missing"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_under_its_own_id_without_being_quoted(
    value: bytes | None, fault: str
) -> None:
    headers = named("mine", attempt=2).headers
    found = received(record(value=value, headers=headers), model=Payment)
    assert isinstance(found, RefusedRecord)
    assert (found.request_id, found.attempt) == ("mine", 2)
    assert found.message == f"value is not a Payment: {fault}"


class Careless(BaseModel):
    amount: int

    @field_validator("amount")
    @classmethod
    def looked_up(cls, amount: int) -> int:
        return {1: 1}[amount]


def test_a_validator_that_breaks_refuses_the_record_and_not_the_worker() -> None:
    found = received(named("a")._replace(value=b'{"amount": 2}'), model=Careless)
    assert isinstance(found, RefusedRecord)
    assert (found.request_id, found.code) == ("a", "INVALID_MESSAGE")
    assert found.message == "value is not a Careless: KeyError"


def test_a_record_without_a_time_has_its_deadline_from_now() -> None:
    found = receive(
        record()._replace(timestamp_ms=-1),
        payments(),
        group="test",
        default_deadline_s=60.0,
        now_s=5.0,
        now_ms=1_000,
    )
    assert found.deadline_at == 61_000


def test_at_most_five_faults_are_named() -> None:
    names = ",".join(f'"x{n}":1' for n in range(50))
    found = received(record(value=f'{{"amount":1,{names}}}'.encode()), model=Payment)
    assert isinstance(found, RefusedRecord)
    assert found.message.count("extra_forbidden") == 5


def test_a_mismatch_is_refused_under_its_coordinates_and_keeps_its_own_hash() -> None:
    found = mismatch(delivery("mine", 3))
    assert found.request_id == f"payments-3-17-{TIMESTAMP_MS}"
    assert (found.code, found.attempt, found.payload_sha256) == ("PAYLOAD_MISMATCH", 3, SHA)
    assert "mine" in found.message


def test_a_refused_record_whose_id_is_taken_moves_to_its_coordinates() -> None:
    first = received(record(value=b"{}", headers=named("mine").headers), model=Payment)
    assert isinstance(first, RefusedRecord)
    found = mismatch_of_refused(first)
    assert found.request_id == f"payments-3-17-{TIMESTAMP_MS}"
    assert (found.code, found.record) == ("PAYLOAD_MISMATCH", first.record)
    assert "mine" in found.message


def test_what_the_journal_cannot_hold_is_refused_under_its_coordinates() -> None:
    found = refused_delivery(delivery("mine"), "INVALID_MESSAGE", "NUL in text")
    assert found.request_id == f"payments-3-17-{TIMESTAMP_MS}"
    assert (found.code, found.message) == ("INVALID_MESSAGE", "NUL in text")
    assert VALUE.decode() not in found.message
