"""A handler that names a JSON Schema: what does not match it is refused before the claim."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from consumer.handlers.declaration import HandlerDefinitionError
from consumer.handlers.delivery import INVALID_MESSAGE, Delivery, RefusedRecord, receive
from consumer.handlers.registry import HandlerRegistry
from feedback.records.schemas import SchemaFile
from feedback.status import State
from tests import preloaded
from tests.consumer.conftest import MakeStage
from tests.consumer.running import COMMAND, COMMAND_LIMIT_S
from tests.consumer.samples import DEADLINE_S, named, payments
from tests.consumer.stage import Stage
from tests.kit.settings import environment
from tests.preloaded.forks import PRELOADED

CARD = "4111111111111111"
SCHEMA = {"properties": {"amount": {"type": "integer"}}, "required": ["amount"]}
MODULE = """
import json, os
from consumer import handler

@handler(topic=os.environ["SCHEMA_TOPIC"], schema="schemas/payment.json"{more})
def pay(request):
    return request.json()["amount"]
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a module of handlers and, below it, their schema."""
    folder = tmp_path / "home"
    (folder / "schemas").mkdir(parents=True)
    (folder / "schemas" / "payment.json").write_text(json.dumps(SCHEMA))
    (folder / "schema_handlers.py").write_text(MODULE.format(more=""))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


@pytest.fixture
def stage(make_stage: MakeStage, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """Yield a stage with these handlers."""
    made = make_stage(worker={"handlers": ["schema_handlers"]})
    monkeypatch.setenv("SCHEMA_TOPIC", made.topics["work"])
    yield made


def received(value: bytes | None, schema: SchemaFile) -> Any:
    record = named("a")._replace(value=value)
    handler = payments(schema=schema)
    return receive(
        record, handler, group="test", default_deadline_s=DEADLINE_S, now_s=0.0, now_ms=0
    )


def test_what_matches_is_a_delivery_and_what_does_not_is_refused_under_its_id(
    home: Path,
) -> None:
    schema = SchemaFile(home / "schemas" / "payment.json")
    assert isinstance(received(b'{"amount": 5}', schema), Delivery)
    found = received(json.dumps({"amount": CARD}).encode(), schema)
    assert isinstance(found, RefusedRecord)
    assert (found.request_id, found.code) == ("a", INVALID_MESSAGE)
    assert found.message == "value does not match payment.json: amount: type"


def test_a_worker_refuses_before_the_claim_and_tells_no_value(stage: Stage) -> None:
    worker = stage.start()
    client, topic = stage.client, stage.topics["work"]
    good = client.send({"amount": 5}, topic=topic)
    bad = client.send({"amount": CARD}, topic=topic)
    assert (good.wait(60).state, good.status().result) == (State.SUCCEEDED, 5)
    told = bad.wait(60)
    assert (told.state, told.code) == (State.FAILED, INVALID_MESSAGE)
    assert told.message == "value does not match payment.json: amount: type"
    row = stage.row(bad.request_id)
    assert row is not None and row["claimed_at"] is None
    assert CARD not in worker.stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "is not JSON"),
        ('{"type": "strin"}', "strin"),
        ('{"$ref": "https://example.com/a.json"}', "nothing from the network"),
        (None, "No such file"),
    ],
)
def test_a_worker_with_a_broken_schema_does_not_start(
    stage: Stage, home: Path, text: str | None, why: str
) -> None:
    path = home / "schemas" / "payment.json"
    path.unlink() if text is None else path.write_text(text)
    # In the folder of the module, so that a preloaded command finds it without PYTHONPATH.
    environ = PRELOADED | {n: v for n, v in environment().items() if not n.startswith("PYTHON")}
    for name in ("run", "check"):
        argv = (*COMMAND, name, "--config", str(stage.config()))
        done = preloaded.run(argv, environ=environ, timeout_s=COMMAND_LIMIT_S, cwd=home)
        assert done.returncode == 2
        said = done.stdout + done.stderr
        assert "handler schema_handlers:pay" in said and why in said
        assert "payment.json" in said and "Traceback" not in said


def test_a_handler_with_both_a_model_and_a_schema_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = ", model=__import__('pydantic').RootModel"
    (home / "both_handlers.py").write_text(MODULE.format(more=more))
    monkeypatch.setenv("SCHEMA_TOPIC", "both")
    monkeypatch.syspath_prepend(home)
    with pytest.raises(Exception, match="model= or schema=, not both"):
        HandlerRegistry.load(["both_handlers"])


def test_a_schema_is_looked_up_beside_its_module_and_read_only_when_asked_for(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = MODULE.format(more="").replace("payment.json", "absent.json")
    (home / "absent_handlers.py").write_text(source)
    monkeypatch.setenv("SCHEMA_TOPIC", "absent")
    monkeypatch.syspath_prepend(home)
    registry = HandlerRegistry.load(["absent_handlers"])  # as a child does
    with pytest.raises(HandlerDefinitionError) as refused:
        registry.load_schemas()
    assert str(home / "schemas" / "absent.json") in str(refused.value)
