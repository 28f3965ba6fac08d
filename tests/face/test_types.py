"""A type checker refuses a handler that a worker would refuse, and a word that is misspelt."""

import re
import subprocess
import sys

import pytest

from tests.face.conftest import LIMIT_S, ROOT

RIGHT = """
from typing import Any, TypedDict

from onceward import Happened, Request, RetryPolicy, Tiers, Unknown, handler


class Receipt(TypedDict):
    number: int


def ask(request: Request) -> Happened | Unknown:
    return Unknown()


async def ask_slowly(request: Request) -> Happened:
    return Happened()


@handler(topic="a", effect="marked", in_doubt="query", query=ask, retries="1s x 2")
def answers_a_dict(request: Request) -> dict[str, object]:
    return {"receipt": request.idempotency_key}


@handler(topic="b", retry_on=("BUSY", ConnectionRefusedError), retries=Tiers(("1s", 2)))
async def answers_a_typed_dict(request: Request) -> Receipt:
    return {"number": 1}


@handler(topic="c", delivery="at_least_once", in_doubt="query", query=ask_slowly)
async def answers_nothing(request: Request, *, again: bool = False) -> None: ...


BANK = RetryPolicy(on=("BUSY", TimeoutError), backoff="1s x 2", within_s=60)


@handler(topic="e", retries=BANK, effect="marked")
def shares_a_policy(request: Request) -> list[int]:
    return [1]


@handler(dead_letters_of="a", on_error="retry")
def answers_anything(request: Request) -> Any: ...


@handler(topic="d", order="key", collapse=lambda request: request.json()["is_current"])
def keeps_its_type(request: Request) -> int:
    return 1


one: int = keeps_its_type(Request.for_tests({}, effect="marked"))
"""
# Each line that a checker must refuse ends with its code.
WRONG = """
from onceward import Client, Request, RetryPolicy, handler


@handler(topic="a")  # type-var
def takes_nothing() -> None: ...


@handler(topic="b")  # type-var
def takes_two(request: Request, connection: object) -> None: ...


@handler(topic="c")  # type-var
def takes_something_else(payment: dict[str, int]) -> None: ...


@handler(topic="d")  # type-var
def answers_no_json(request: Request) -> set[int]:
    raise NotImplementedError


@handler(topic="e")  # type-var
async def answers_no_json_later(request: Request) -> Request:
    raise NotImplementedError


def ask(request: Request) -> bool:
    raise NotImplementedError


handler(topic="f", in_doubt="query", query=ask)  # arg-type
handler(topic="g", effect="mark")  # arg-type
handler(topic="g", in_doubt="retry")  # arg-type
handler(topic="g", delivery="exactly_once")  # arg-type
handler(topic="g", order="topic")  # arg-type
handler(dead_letters_of="g", on_error="again")  # arg-type
handler(topic="g", retrys="1s")  # call-arg
RetryPolicy(backoff="1s")  # call-arg
Client(durability="sure")  # arg-type
Request.for_tests({}, effect="mark")  # arg-type
"""


Findings = dict[str, list[tuple[int, str]]]


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """Return line and code of each error that mypy finds, in one run of it, by file."""
    folder = tmp_path_factory.mktemp("checked")
    files = {name: folder / f"{name}.py" for name in ("right", "wrong")}
    for file, text in zip(files.values(), (RIGHT, WRONG), strict=True):
        file.write_text(text)
    done = subprocess.run(
        (sys.executable, "-m", "mypy", "--no-error-summary", *map(str, files.values())),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    # Else it has found nothing because it did not run.
    assert (done.returncode, done.stderr) == (1, ""), done.stdout + done.stderr
    found: Findings = {}
    for name in files:
        # By name: of what has not changed since an earlier run mypy tells where it was then.
        errors = re.findall(rf"\b{name}\.py:(\d+): error: .*\[(.*)\]", done.stdout)
        found[name] = [(int(line), code) for line, code in errors]
    return found


def test_a_checker_accepts_what_a_worker_accepts(refused: Findings) -> None:
    assert refused["right"] == []


def test_a_checker_refuses_a_wrong_signature_and_a_wrong_word(refused: Findings) -> None:
    marked = [
        (number, line.rpartition("  # ")[2])
        for number, line in enumerate(WRONG.split("\n"), 1)
        if "  # " in line
    ]
    assert len(marked) == 15
    assert refused["wrong"] == marked
