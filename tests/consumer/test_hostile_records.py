"""No record ends a worker, whatever its bytes are and whatever the user's validator does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, field_validator

from consumer.handlers.delivery import Delivery, RefusedRecord, receive
from consumer.handlers.errors import EffectRefused, InDoubt, Rejected
from feedback.records.envelope import ATTEMPT, DEADLINE, MAX_EPOCH_MS, OUTCOME_ID, REQUEST_ID
from feedback.records.schemas import FAULT_LIMIT, SchemaFile
from tests.consumer.samples import payments, record
from tests.hostile import exceptions

SECRET = "4111111111111111"
NAMES = st.sampled_from([REQUEST_ID, ATTEMPT, DEADLINE, OUTCOME_ID]) | st.text(max_size=5)
BYTES = st.none() | st.binary(max_size=20) | st.text("0123456789a-\0", max_size=40).map(str.encode)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda some: st.lists(some) | st.dictionaries(st.text() | st.sampled_from(["a", "1"]), some),
)
VALUES = BYTES | JSON.map(lambda value: json.dumps(value).encode())


def taken(handler: Any, **facts: Any) -> Delivery | RefusedRecord:
    """Return what a worker takes a record for."""
    found = receive(
        record(**facts), handler, group="test", default_deadline_s=60.0, now_s=0.0, now_ms=0
    )
    assert 0 <= found.deadline_at <= MAX_EPOCH_MS
    if isinstance(found, RefusedRecord):
        assert type(found.message) is str and "\n" not in found.message
        assert len(found.message) <= FAULT_LIMIT and SECRET not in found.message
        assert found.message.encode() and "\0" not in found.message
    return found


class LooksLike(ValueError):
    """What a library of the user's raises: it has `errors`, and that is no method."""

    errors = ({"field": "card"},)


@pytest.mark.parametrize("name", ["errors", "not callable", "wrong shape"])
def test_an_error_that_only_looks_like_pydantics_is_a_refusal(name: str) -> None:
    class Odd(ValueError):
        def errors(self, **settings: object) -> object:
            return [{"loc": 5}] if name == "wrong shape" else None

    class Payment:
        @classmethod
        def model_validate_json(cls, value: Any, **settings: Any) -> Any:
            raise LooksLike(SECRET) if name == "not callable" else Odd(SECRET)

    found = taken(payments(model=Payment))
    assert isinstance(found, RefusedRecord)
    kind = "LooksLike" if name == "not callable" else "Odd"
    assert found.message == f"value is not a Payment: {kind}"


@given(exceptions(), st.booleans())
def test_whatever_a_validator_raises_is_a_refusal(error: BaseException, is_field: bool) -> None:
    def fail(*args: Any, **settings: Any) -> Any:
        raise error

    class Model(BaseModel):
        amount: int
        check = field_validator("amount", mode="before")(lambda value: fail())

    class Whole:
        model_validate_json = fail

    found = taken(payments(model=Model if is_field else Whole))
    assert isinstance(found, RefusedRecord)
    assert found.message.startswith("value is not a ")


def test_a_model_that_cannot_say_its_schema_still_refuses() -> None:
    class Model(BaseModel):
        amount: int

        @classmethod
        def model_json_schema(cls, *args: Any, **settings: Any) -> Any:
            raise KeyError(SECRET)

    found = taken(payments(model=Model), value=b'{"amount": "x"}')
    assert isinstance(found, RefusedRecord)
    assert found.message == "value is not a Model: *: int_parsing"


@given(
    st.lists(st.tuples(NAMES, BYTES), max_size=5),
    BYTES,
    VALUES,
    st.integers(-(2**63), 2**63 - 1),
    st.booleans(),
)
def test_whatever_a_record_has_it_is_a_delivery_or_a_refusal(
    headers: Any, key: bytes | None, value: bytes | None, timestamp_ms: int, of_letters: bool
) -> None:
    handler = payments(dead_letters_of="sales" if of_letters else None)
    taken(handler, headers=tuple(headers), key=key, value=value, timestamp_ms=timestamp_ms)


SCHEMAS = (
    {"type": "object", "properties": {"a": {"type": "integer"}, "1": {"maxItems": 1}}},
    {"items": {"pattern": "^(a+)+$"}, "multipleOf": 0.01, "uniqueItems": True},
    {"additionalProperties": {"enum": [1, "a", None]}, "minimum": 1e308, "format": "date-time"},
    {"$defs": {"n": {"items": {"$ref": "#/$defs/n"}}}, "$ref": "#/$defs/n"},
)


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> list[SchemaFile]:
    folder = tmp_path_factory.mktemp("schemas")
    made = []
    for number, schema in enumerate(SCHEMAS):
        path: Path = folder / f"{number}.json"
        path.write_text(json.dumps(schema))
        made.append(SchemaFile(path))
    return made


@given(VALUES, st.integers(0, len(SCHEMAS) - 1))
def test_whatever_a_value_is_a_schema_takes_or_refuses_it(
    schemas: list[SchemaFile], value: bytes | None, which: int
) -> None:
    taken(payments(schema=schemas[which]), value=value)


def test_a_word_of_ours_raised_by_a_validator_is_a_refusal() -> None:
    for error in (Rejected("NO"), InDoubt(), EffectRefused("a", 1)):

        class Whole:
            @classmethod
            def model_validate_json(cls, value: bytes) -> None:
                raise error  # noqa: B023

        assert isinstance(taken(payments(model=Whole)), RefusedRecord)
