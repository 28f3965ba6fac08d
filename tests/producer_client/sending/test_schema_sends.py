"""A client that knows what a value has to be sends nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel, field_validator

from feedback.errors import ExitCode, InvalidMessage, InvalidValue, SettingsError
from feedback.records.envelope import Record
from feedback.records.schema_faults import SchemaError
from feedback.status import State
from producer_client import Client, Submission
from tests.producer_client.acting import Worker
from tests.producer_client.conftest import MakeSettings
from tests.producer_client.programs import Run

Records = Callable[[], list[Record]]

CARD = "4111111111111111"
SCHEMA = {"properties": {"amount": {"type": "integer"}}, "required": ["amount"]}
BAD = {"amount": CARD}


class Payment(BaseModel):
    """What a model says."""

    amount: int


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    """Return a schema in a file."""
    path = tmp_path / "payment.json"
    path.write_text(json.dumps(SCHEMA))
    return path


@pytest.fixture(params=["model", "schema", "settings"])
def strict(
    request: pytest.FixtureRequest, make_settings: MakeSettings, schema: Path
) -> Iterator[Client]:
    """Yield a client that was told in each of the ways what a value is."""
    if request.param == "settings":
        made = Client(make_settings(schema=str(schema)))
    elif request.param == "schema":
        made = Client(make_settings(), schema=schema)
    else:
        made = Client(make_settings(), model=Payment)
    yield made
    made.close()


def test_a_value_that_does_not_match_is_not_sent_and_leaves_no_trace(
    strict: Client, worker: Worker, records: Records
) -> None:
    bad = {"amount": f"{CARD}x"}
    with pytest.raises(InvalidValue) as refused:
        strict.send(bad, request_id="r1")
    assert isinstance(refused.value, InvalidMessage)
    assert refused.value.exit_code is ExitCode.USAGE
    assert "amount: " in refused.value.reason and CARD not in refused.value.reason
    assert worker.store.read("r1").state is State.UNKNOWN
    assert worker.store.redis.dbsize() == 0 or not list(
        worker.store.redis.scan_iter(f"onceward:{strict.settings.kafka.group}:*")
    )
    good = strict.send({"amount": 5})
    assert good.status().state is State.PENDING
    assert [record.value for record in records()] == [b'{"amount":5}']


def test_of_many_only_those_are_sent_that_match(strict: Client, records: Records) -> None:
    values: list[dict[str, object]] = [{"amount": 1}, {"amount": "x"}, {}, {"amount": 2}]
    results = list(strict.send_many(Submission(value) for value in values))
    assert [one.sent for one in results] == [True, False, False, True]
    assert [type(one.error) for one in results[1:3]] == [InvalidValue, InvalidValue]
    assert {record.value for record in records()} == {b'{"amount":1}', b'{"amount":2}'}


def test_what_was_sent_before_is_sent_again_as_it_was(
    make_settings: MakeSettings, schema: Path, records: Records
) -> None:
    with Client(make_settings()) as before:
        sent = before.send(BAD)
    with Client(make_settings(), schema=schema) as strict:
        strict.resend(sent.request_id, sent.payload, known=strict.status(sent.request_id))
    assert [record.value for record in records()] == [json.dumps(BAD).replace(" ", "").encode()] * 2


def test_a_model_of_the_program_wins_over_the_schema_of_the_settings(
    make_settings: MakeSettings, schema: Path, records: Records
) -> None:
    class Anything(BaseModel):
        """Takes every object."""

    with Client(make_settings(schema=str(schema)), model=Anything) as client:
        client.send({"other": 1})
    assert [record.value for record in records()] == [b'{"other":1}']


def test_a_client_with_both_or_with_what_is_neither_is_not_made(
    make_settings: MakeSettings, schema: Path, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match="not both"):
        Client(make_settings(), model=Payment, schema=schema)
    with pytest.raises(SettingsError, match="pydantic model"):
        Client(make_settings(), model=dict)
    with pytest.raises(SchemaError, match=r"absent\.json"):
        Client(make_settings(), schema=tmp_path / "absent.json")


# instances of models ------------------------------------------------------------------------


def test_an_instance_is_sent_as_its_json_with_a_model_a_schema_or_neither(
    strict: Client, make_settings: MakeSettings, records: Records
) -> None:
    strict.send(Payment(amount=5))
    with Client(make_settings()) as client:
        (result,) = client.send_many([Submission(Payment(amount=6))])
    assert result.sent
    assert [record.value for record in records()] == [b'{"amount":5}', b'{"amount":6}']


def test_an_instance_of_the_clients_model_is_not_validated_twice(
    make_settings: MakeSettings,
) -> None:
    validated: list[int] = []

    class Counted(Payment):
        """Counts how often it is validated."""

        @field_validator("amount")
        @classmethod
        def _count(cls, amount: int) -> int:
            validated.append(amount)
            return amount

    with Client(make_settings(), model=Counted) as client:
        client.send(Counted(amount=5))
        assert validated == [5]
        client.send({"amount": 6})
        assert validated == [5, 6]


def test_an_instance_of_another_model_is_validated_as_any_value(
    make_settings: MakeSettings, records: Records
) -> None:
    class Other(BaseModel):
        """Another field."""

        sum: str = CARD

    refusal = pytest.raises(InvalidValue, match="not a Payment: amount: missing")
    with Client(make_settings(), model=Payment) as client, refusal as refused:
        client.send(Other())
    assert CARD not in str(refused.value)
    assert records() == []


# the command -------------------------------------------------------------------------------


def test_the_command_sends_no_payload_that_does_not_match(
    call: Run, schema: Path, records: Records
) -> None:
    done = call("send", json.dumps(BAD), ONCEWARD_CLIENT__SCHEMA=str(schema))
    assert (done.code, done.stdout) == (2, "")
    assert "value does not match payment.json: amount: type" in done.stderr
    assert CARD not in done.stderr
    assert records() == []


def test_the_command_names_the_lines_of_a_file_that_do_not_match_and_sends_the_others(
    call: Run, schema: Path, records: Records, tmp_path: Path
) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text('{"amount": 1}\n\n{"amount": "4111"}\n{"amount": 2}\n{}\n')
    done = call("send", "--file", str(path), ONCEWARD_CLIENT__SCHEMA=str(schema))
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "error: line 3: value does not match payment.json: amount: type",
        "error: line 5: value does not match payment.json: value: required amount",
        "2 not sent, 2 sent",
        "more: onceward help error-invalidvalue",
    ]
    assert len(records()) == 2
    told = call("send", "--json", "--file", str(path), ONCEWARD_CLIENT__SCHEMA=str(schema))
    lines = [json.loads(line) for line in told.stdout.splitlines()]
    assert [(one["line"], one["sent"]) for one in lines] == [
        (1, True),
        (3, False),
        (4, True),
        (5, False),
    ]


def test_a_schema_that_is_none_ends_the_command_before_it_sends(
    call: Run, schema: Path, records: Records
) -> None:
    schema.write_text("{")
    done = call("send", "{}", ONCEWARD_CLIENT__SCHEMA=str(schema))
    assert (done.code, done.stdout) == (2, "")
    assert "payment.json is not JSON" in done.stderr and "Traceback" not in done.stderr
    assert records() == []
