"""A user's program imports from `onceward` alone, and loads what it uses."""

import ast
import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import consumer
import onceward
import producer_client
from tests.documents import ROOT, examples

OURS = ("consumer", "feedback", "onceward", "producer_client", "spark_audit")
PUBLIC = ("onceward", "onceward.http", "onceward.testing")
FACES = (consumer, onceward, producer_client)
# Programs as users write them.
PROGRAMS = ("tests/demo/handlers.py", "tests/producer_client/fastapi_example.py")


def imports_of(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield module and name of each `from … import …`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from ((node.module, one.name) for one in node.names)
        elif isinstance(node, ast.Import):
            yield from ((one.name, "") for one in node.names)


def programs() -> dict[str, str]:
    """Return what users read or copy, by its place."""
    return examples() | {path: (ROOT / path).read_text() for path in PROGRAMS}


@pytest.mark.parametrize(("place", "program"), programs().items(), ids=programs())
def test_a_program_imports_public_names_of_public_packages(place: str, program: str) -> None:
    found = [one for one in imports_of(ast.parse(program)) if one[0].split(".")[0] in OURS]
    for module, name in found:
        assert module in PUBLIC, f"{place}: {module}.{name}"
        assert name in importlib.import_module(module).__all__


def test_the_examples_of_the_documents_import_something() -> None:
    imported = {one for program in programs().values() for one in imports_of(ast.parse(program))}
    assert {("onceward", "handler"), ("onceward", "AsyncClient")} <= imported
    assert ("onceward.testing", "Bench") in imported


@pytest.mark.parametrize("face", FACES, ids=lambda face: str(face.__name__))
def test_every_public_name_is_there_and_is_what_a_type_checker_reads(face: ModuleType) -> None:
    assert face.__file__ is not None
    tree = ast.parse(Path(face.__file__).read_text())
    read = {name: module for module, name in imports_of(tree) if name in face.__all__}
    assert sorted(read) == sorted(face.__all__)
    for name, module in read.items():
        home = importlib.import_module(module)
        assert getattr(face, name) is getattr(home, name), name
        assert name in dir(face)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    for face in FACES:
        with pytest.raises(AttributeError, match=f"'{face.__name__}' has no attribute 'charge'"):
            _ = face.charge
        with pytest.raises(ImportError):
            exec(f"from {face.__name__} import charge")


def loaded_by(program: str) -> set[str]:
    """Return the modules of a fresh interpreter that has run this."""
    told = f"{program}\nimport json, sys\nprint(json.dumps(list(sys.modules)))"
    ran = subprocess.run(
        [sys.executable, "-c", told], cwd=ROOT, capture_output=True, check=True, timeout=60
    )
    return set(json.loads(ran.stdout))


@pytest.mark.parametrize(
    "program",
    [
        "import onceward",
        "import producer_client",
        "from onceward import DeadLetter, InvalidMessage, NotSent, Request, State, Status, handler",
        "from producer_client import NotSent, PayloadMismatch, SendUnknown, State, Status",
        "from consumer import InvalidMessage, Request, Tiers, handler",
    ],
)
def test_who_uses_no_client_loads_none_of_its_libraries(program: str) -> None:
    assert not {"kafka", "redis", "sqlalchemy", "pydantic", "asyncio"} & loaded_by(program)


def test_a_client_for_threads_loads_nothing_of_ours_for_asyncio() -> None:
    loaded = loaded_by("from onceward import Client, Handle, RedisUnavailable, handler")
    assert "producer_client.client.client" in loaded
    assert not {"producer_client.client.async_client", "feedback.redis.async_store"} & loaded
    assert "sqlalchemy" not in loaded
