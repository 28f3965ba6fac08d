"""What is said of a value that a schema does not take, and which schemas are refused themselves."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from feedback.errors import ExitCode
from feedback.records.schema_faults import SchemaError
from feedback.records.schemas import SchemaFile, value_fault

CARD = "4111111111111111"
PAYMENT = {
    "type": "object",
    "properties": {
        "amount": {"type": "integer", "minimum": 1},
        "card": {"type": "string", "maxLength": 20},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
        "notes": {"additionalProperties": {"type": "integer"}},
    },
    "required": ["amount", "card"],
    "additionalProperties": False,
}

Write = Callable[..., SchemaFile]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a schema, as JSON or as the text that it is given."""

    def one(found: Any, name: str = "payment.json") -> SchemaFile:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(found if isinstance(found, str) else json.dumps(found))
        return SchemaFile(path)

    return one


def fault(schema: SchemaFile, value: object) -> str | None:
    """Return what is wrong with a value, without the schema's name."""
    found = schema.fault(value if isinstance(value, bytes) else json.dumps(value).encode())
    return None if found is None else found.removeprefix("value does not match payment.json: ")


def test_what_matches_has_no_fault(write: Write) -> None:
    schema = write(PAYMENT)
    assert fault(schema, {"amount": 5, "card": CARD}) is None
    assert fault(schema, b'{"amount": 5.0, "card": "\\u00e9", "tags": ["a"]}') is None
    assert fault(schema, {"amount": 10**30, "card": ""}) is None


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({"amount": 0, "card": CARD}, "amount: minimum"),
        ({"amount": CARD, "card": CARD}, "amount: type"),
        ({}, "value: required amount, value: required card"),
        ({"amount": 1, "card": CARD * 2}, "card: maxLength"),
        ({"amount": 1, "card": "", "tags": ["a", CARD]}, "tags.1: enum"),
        ({"amount": 1, "card": "", CARD: 1}, "value: additionalProperties"),
        ({"amount": 1, "card": "", "notes": {CARD: CARD}}, "notes.*: type"),
        ({"amount": 1, "card": "", "notes": {"0411": {"7": 1}}}, "notes.*: type"),
        (CARD, "value: type"),
    ],
)
def test_a_fault_is_a_place_and_a_rule_and_never_the_value(
    write: Write, value: object, named: str
) -> None:
    found = fault(write(PAYMENT), value)
    assert found == named
    assert CARD not in (found or "")


@pytest.mark.parametrize(
    "value",
    [b"", b"nope", b"\xff\xfe", b"NaN", b'{"amount": Infinity}', b"[" * 100_000, b"9" * 5000],
)
def test_what_is_no_json_is_told_so(write: Write, value: bytes) -> None:
    assert write(PAYMENT).fault(value) == "value is not JSON"


def test_a_tombstone_is_null(write: Write) -> None:
    assert write(PAYMENT).fault(None) == "value does not match payment.json: value: type"
    assert write({"type": "null"}).fault(None) is None


def test_of_many_faults_the_first_few_are_named(write: Write) -> None:
    schema = write({"items": {"type": "integer"}})
    found = schema.fault(json.dumps([CARD] * 100).encode())
    assert found is not None and found.count(": type") == 5


@given(st.recursive(st.text() | st.integers() | st.none(), st.lists, max_leaves=5))
def test_whatever_the_value_is_it_is_not_in_the_message(value: object) -> None:
    marked = {"amount": "secret-1", "secret-2": value, "notes": {"secret-3": "secret-4"}}
    found = _ANY.fault(json.dumps(marked).encode())
    assert found is not None and "secret" not in found


# refused schemas ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("{", "is not JSON"),
        ("[]", "a schema is a JSON object"),
        ("true", "a schema is a JSON object"),
        ({"type": "strin"}, 'type: "strin"'),
        ({"properties": {"a": {"minimum": "1"}}}, "properties.a.minimum"),
        ({"pattern": "("}, "pattern"),
        ({"$ref": "#/$defs/absent"}, "/$defs/absent"),
        ({"$ref": "absent.json"}, "absent.json: No such file"),
        ({"$ref": "../absent.json"}, "only files beside it"),
        ({"$ref": "file:///etc/passwd"}, "only files beside it"),
        ({"$ref": "file://elsewhere/payment.json"}, "only files beside it"),
        ({"$schema": "https://example.com/mine"}, "https://example.com/mine"),
    ],
)
def test_a_schema_that_cannot_be_used_is_named_with_its_fault(
    write: Write, schema: Any, why: str
) -> None:
    with pytest.raises(SchemaError) as refused:
        write(schema).load()
    assert refused.value.exit_code is ExitCode.USAGE
    assert "payment.json" in str(refused.value) and why in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"absent\.json: No such file"):
        SchemaFile(tmp_path / "absent.json").load()


def test_nothing_is_read_from_the_network(write: Write) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        port = server.getsockname()[1]
        remote = {"properties": {"a": {"$ref": f"http://127.0.0.1:{port}/a.json"}}}
        with pytest.raises(SchemaError, match="nothing from the network"):
            write(remote).load()
        with pytest.raises(TimeoutError):
            server.accept()


@pytest.mark.parametrize("host", ["https://example.com", "file://elsewhere", "ftp://"])
def test_the_file_of_another_host_is_not_ours_whatever_its_path_is(
    write: Write, tmp_path: Path, host: str
) -> None:
    write({"type": "integer"}, "amount.json")
    with pytest.raises(SchemaError, match="only files beside it"):
        write({"$ref": f"{host}{tmp_path.as_posix()}/amount.json"}).load()


def test_a_schema_may_refer_to_files_beside_it_and_these_to_others(write: Write) -> None:
    write({"properties": {"zip": {"type": "string"}}, "$ref": "parts/land.json"}, "address.json")
    write({"required": ["land"], "properties": {"land": {"minLength": 2}}}, "parts/land.json")
    schema = write({"properties": {"to": {"$ref": "address.json"}}})
    assert fault(schema, {"to": {"land": "de"}}) is None
    found = fault(schema, {"to": {"zip": 5}})
    assert found is not None and sorted(found.split(", ")) == ["to.zip: type", "to: required land"]


def test_an_id_is_no_address_that_is_asked(write: Write) -> None:
    schema = write(
        {
            "$id": "https://example.com/payment.json",
            "$ref": "#/$defs/amount",
            "$defs": {"amount": {"type": "integer"}},
        }
    )
    assert (fault(schema, 5), fault(schema, "x")) == (None, "value: type")


def test_a_schema_without_a_draft_is_of_2020_12_and_one_with_is_of_that(write: Write) -> None:
    tuples = {"prefixItems": [{"type": "string"}]}
    assert fault(write(tuples), [1]) == "0: type"
    draft_7 = {"$schema": "http://json-schema.org/draft-07/schema#", **tuples}
    assert fault(write(draft_7), [1]) is None


def test_a_schema_is_read_once(write: Write, tmp_path: Path) -> None:
    schema = write(PAYMENT)
    schema.load()
    (tmp_path / "payment.json").unlink()
    assert fault(schema, {"amount": 0, "card": ""}) == "amount: minimum"


# models ------------------------------------------------------------------------------------


class Payment(BaseModel):
    """What a model says."""

    amount: int


def test_a_model_and_a_schema_are_asked_by_the_same_function(write: Write) -> None:
    value = b'{"amount": "4111x"}'
    assert value_fault(value) is None
    assert value_fault(value, model=Payment) == "value is not a Payment: amount: int_parsing"
    schema = write({"properties": {"amount": {"type": "integer"}}})
    assert value_fault(value, schema=schema) == "value does not match payment.json: amount: type"


def test_a_name_that_a_model_does_not_know_is_payload_and_not_shown() -> None:
    class Item(BaseModel):
        """A part, under another name in JSON."""

        count: int = Field(alias="pieces")

    class Order(BaseModel, extra="forbid"):
        """What holds parts by the names of its sender."""

        items: dict[str, Item]

    assert value_fault(b'{"items": {}, "4111-1111": 1}', model=Order) == (
        "value is not a Order: *: extra_forbidden"
    )
    nested = b'{"items": {"4111-1111": {"pieces": "x"}}}'
    assert value_fault(nested, model=Order) == "value is not a Order: items.*.pieces: int_parsing"


def test_a_model_that_has_no_schema_shows_no_name() -> None:
    class Strange:
        """A type that pydantic knows only in Python."""

    class Odd(BaseModel, arbitrary_types_allowed=True):
        """What cannot be written as a schema."""

        amount: int
        strange: Strange | None = None

    fault = value_fault(b'{"amount": "x"}', model=Odd)
    assert fault == "value is not a Odd: *: int_parsing"


_PART = {"properties": {"part": {"$ref": "#/$defs/part"}}}


@pytest.mark.parametrize(
    ("schema", "other", "shown"),
    [
        ({"items": {"$ref": "other.json"}}, {"type": "string"}, {"items": {"type": "string"}}),
        ({"$defs": {"part": _PART}}, {}, {"$defs": {"part": {"properties": {"part": _PART}}}}),
        # Nobody who has only this schema could follow the reference that is left.
        ({"items": {"$ref": "other.json"}}, {"items": {"$ref": "other.json"}}, {}),
        ({"items": {"$ref": "other.json#/$defs/part"}}, {"$defs": {"part": _PART}}, {}),
    ],
)
def test_others_are_shown_a_schema_that_stands_alone(
    tmp_path: Path, schema: object, other: object, shown: object
) -> None:
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    (tmp_path / "other.json").write_text(json.dumps(other))
    assert SchemaFile(tmp_path / "schema.json").document() == shown


def test_who_validates_nothing_does_not_pay_for_the_library() -> None:
    asked = "import sys, consumer, producer_client; print('jsonschema_rs' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.fixture(scope="module", autouse=True)
def any_schema(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Make the schema of the property test, which cannot have a fixture of its own."""
    path = tmp_path_factory.mktemp("schemas") / "any.json"
    path.write_text(json.dumps(PAYMENT))
    _ANY.path = path


_ANY = SchemaFile("any.json")
