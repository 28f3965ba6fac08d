"""What is asked to be sent, made ready."""

import json
import uuid
from dataclasses import replace
from decimal import Decimal
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, Json, computed_field

from feedback.errors import InvalidMessage, NotSent, PayloadMismatch, SendUnknown
from feedback.records.envelope import MAX_EPOCH_MS, payload_sha256
from feedback.statuses import Replaced
from producer_client import AsyncHandle, Client, Handle
from producer_client.submission import Prepared, SendResult, Submission, encode_value, prepare

NOW_MS = 1_700_000_000_000

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)  # fmt: skip


def _prepare(submission: Submission) -> Prepared:
    return prepare(submission, default_topic="default", default_deadline_s=60, now_ms=NOW_MS)


def test_what_is_not_said_comes_from_the_settings() -> None:
    ready = _prepare(Submission(b"v"))
    assert ready.payload.topic == "default"
    assert ready.envelope.attempt == 1
    assert ready.envelope.deadline_at == NOW_MS + 60_000
    assert not ready.named_by_caller


def test_what_is_said_wins() -> None:
    ready = _prepare(Submission(b"v", "k", "t", "r1", (("h", b"\xff"),), 0.5))
    assert (ready.request_id, ready.named_by_caller) == ("r1", True)
    assert (ready.payload.topic, ready.payload.key) == ("t", b"k")
    assert ready.payload.headers == (("h", b"\xff"),)
    assert ready.envelope.deadline_at == NOW_MS + 500
    assert ready.payload_sha256 == payload_sha256(b"k", b"v")


@pytest.mark.parametrize(
    "name", ["onceward-outcome-id", "onceward-attempt", "onceward-replaces", "onceward-"]
)
def test_a_header_that_only_we_may_write_is_refused(name: str) -> None:
    with pytest.raises(InvalidMessage, match="begins with onceward- is ours"):
        _prepare(Submission(b"v", headers=((name, b"\xff"),)))


def test_neither_a_request_nor_what_is_made_of_it_shows_its_payload() -> None:
    asked = Submission(b"SECRET", b"SECRET", headers=(("h", b"SECRET"),))
    ready = _prepare(asked)
    told = replace(ready, replaced=Replaced(b"SECRET"))
    handle = Handle("r", cast("Client", None), ready.payload, None)
    shown = (asked, ready, told, ready.payload, handle, AsyncHandle("r", None, ready.payload, None))  # type: ignore[arg-type]
    assert "SECRET" not in repr(shown)


def test_ids_are_made_up_one_for_each() -> None:
    assert len({_prepare(Submission(b"v")).request_id for _ in range(1_000)}) == 1_000


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (None, None),
        (b"\xff\x00", b"\xff\x00"),
        (b"", b""),
        ("", b""),
        ("é", "é".encode()),
        ({"a": [1, None]}, b'{"a":[1,null]}'),
        ([], b"[]"),
    ],
)
def test_values_become_bytes(value: Any, encoded: bytes | None) -> None:
    assert encode_value(value) == encoded


@given(st.lists(json_values) | st.dictionaries(st.text(), json_values))
def test_any_json_comes_back_as_it_was(value: Any) -> None:
    encoded = encode_value(value)
    assert encoded is not None
    assert json.loads(encoded) == value


def _deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("submission", "named"),
    [
        (Submission(None), "neither key nor value"),
        (Submission({"a": float("inf")}), "JSON"),
        (Submission([object()]), "JSON"),
        pytest.param(Submission(_deep(100_000)), "JSON", id="deep"),
        (Submission("\ud800"), "the value is text"),
        (Submission(b"v", key="\ud800"), "the key is text"),
        (Submission(b"v", topic="a/b"), "topic"),
        (Submission(b"v", topic="t" * 250), "topic"),
        (Submission(b"v", topic="t\n"), "topic"),
        (Submission(b"v", request_id=""), "request id"),
        (Submission(b"v", deadline_s=-1), "deadline"),
        (Submission(b"v", deadline_s=float("nan")), "deadline"),
        (Submission(b"v", deadline_s=float("inf")), "deadline"),
        (Submission(b"v", deadline_s=MAX_EPOCH_MS / 1000), "deadline"),
        (Submission(b"v", topic=5), "topic is text, not int"),  # type: ignore[arg-type]
        (Submission(b"v", key=5), "key is bytes or text, not int"),  # type: ignore[arg-type]
        (Submission(b"v", request_id=uuid.uuid4()), "id is text, not UUID"),  # type: ignore[arg-type]
        (Submission(b"v", deadline_s="60"), "deadline is a number of"),  # type: ignore[arg-type]
        (Submission(b"v", headers=(("h", None),)), "headers"),  # type: ignore[arg-type]
        (Submission(b"v", headers=(("h", "text"),)), "headers"),  # type: ignore[arg-type]
        (Submission(b"v", headers=((b"h", b""),)), "headers"),  # type: ignore[arg-type]
        (Submission(b"v", headers=(("h", b"", b""),)), "headers"),  # type: ignore[arg-type]
        (Submission(b"v", headers=(("\ud800", b""),)), "header"),
    ],
)
def test_what_cannot_be_sent_is_named(submission: Submission, named: str) -> None:
    with pytest.raises(InvalidMessage, match=named):
        _prepare(submission)


def test_without_any_topic_the_setting_is_named() -> None:
    with pytest.raises(InvalidMessage, match=r"\[client\] topic"):
        prepare(Submission(b"v"), default_topic=None, default_deadline_s=60, now_ms=NOW_MS)


def test_the_last_moment_of_the_calendar_is_a_deadline() -> None:
    ready = _prepare(Submission(b"v", deadline_s=(MAX_EPOCH_MS - NOW_MS) / 1000))
    assert ready.envelope.deadline_at == MAX_EPOCH_MS


def test_a_result_tells_sent_not_sent_and_unknown_apart() -> None:
    facts = [
        (result.sent, result.unknown)
        for result in (
            SendResult("r1"),
            SendResult("r1", NotSent("r1", "")),
            SendResult("r1", SendUnknown("r1", "")),
            SendResult("r1", PayloadMismatch("r1")),
        )
    ]
    assert facts == [(True, False), (False, False), (False, True), (False, False)]


class Booking(BaseModel):
    """A model with all that its JSON must keep or leave out."""

    model_config = ConfigDict(extra="forbid")

    seat: str = Field(alias="seatNumber")
    price: Decimal
    data: Json[list[int]]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def label(self) -> str:
        """Not sent: the model itself would refuse it."""
        return f"{self.seat}!"


def test_a_model_reads_its_own_json_again() -> None:
    booking = Booking(seatNumber="é7", price=Decimal("5.10"), data="[1]")
    sent = encode_value(booking)
    assert sent is not None
    assert Booking.model_validate_json(sent) == booking
    assert b"label" not in sent


@pytest.mark.parametrize("wrong", [object(), "SECRET", "\ud800"])
def test_a_model_whose_field_was_set_to_another_type_is_refused_without_its_value(
    wrong: object,
) -> None:
    booking = Booking(seatNumber="7", price=Decimal(5), data="[1]")
    booking.price = wrong  # type: ignore[assignment]
    with pytest.raises(InvalidMessage, match="the Booking cannot be written as JSON") as refused:
        encode_value(booking)
    assert "SECRET" not in str(refused.value)
