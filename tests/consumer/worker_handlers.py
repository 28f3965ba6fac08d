"""The handlers of the workers under test: each run is counted in a file, then does what it is told.

A worker has those handlers that `TEST_TOPICS` gives a topic (JSON, handler's name to topic).
"""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from consumer import InDoubt, Rejected, Request, handler

if multiprocessing.parent_process() is not None and "TEST_NO_CHILDREN" in os.environ:
    raise ImportError("this library is on no child's path")

_TOPICS: dict[str, str] = json.loads(os.environ.get("TEST_TOPICS", "{}"))

Handler = Callable[[Request], Any]


def _declared(name: str, **settings: Any) -> Callable[[Any], Any]:
    if name not in _TOPICS:
        return lambda function: function
    return handler(topic=_TOPICS[name], **settings)


def _count(request: Request, at: str = "run") -> None:
    """Append one line to the file of runs; a short append is never torn or lost."""
    line = {
        "at": at,
        "request_id": request.request_id,
        "generation": request.generation,
        "attempt": request.attempt,
        "traceparent": request.traceparent,
        "pid": os.getpid(),
        "parent": os.getppid(),
    }
    file = os.open(os.environ["TEST_RUNS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, json.dumps(line).encode() + b"\n")
    finally:
        os.close(file)


def _body(request: Request) -> dict[str, Any]:
    try:
        body = request.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _wait_at(gate: str) -> None:
    """Wait until the test unlocks this file."""
    with open(gate) as file:  # noqa: PTH123 - the lock belongs to this descriptor
        fcntl.flock(file, fcntl.LOCK_SH)


def _survive(request: Request) -> None:
    """Die, or hang, in every generation that the body says is to."""
    body = _body(request)
    if request.generation <= body.get("dies", 0):
        os.kill(os.getpid(), signal.SIGKILL)
    if request.generation <= body.get("crashes", 0):
        # To this thread: one to the process may end another, while this one goes on for a moment.
        signal.raise_signal(signal.SIGSEGV)
    if request.generation <= body.get("hangs", 0):
        threading.Event().wait()


def _do(body: dict[str, Any]) -> Any:
    if "gate" in body:
        _wait_at(body["gate"])
    if "takes_s" in body:
        time.sleep(body["takes_s"])
    match body.get("do"):
        case "reject":
            raise Rejected("CARD_EXPIRED", "the card has expired")
        case "doubt":
            raise InDoubt("the bank did not answer")
        case "raise":
            raise OSError("the bank is on fire")
        case "exit":
            sys.exit(3)
        case "print":
            print("x" * 3_000_000)
            print("y" * 3_000_000, file=sys.stderr)
        case "return-set":
            return {1, 2}
        case "return-nan":
            return float("nan")
        case "return-large":
            return "z" * 10 * 2**20
    return body.get("answer")


@_declared("work")
def work(request: Request) -> Any:
    """Have an external effect."""
    _count(request)
    return _do(_body(request))


@_declared("other")
def other(request: Request) -> Any:
    """Have an external effect, on a topic of its own."""
    return work(request)


@_declared("ordered", order="key")
def ordered(request: Request) -> Any:
    """Have an external effect, one request of a key after the other."""
    return work(request)


@_declared("marked", effect="marked")
def marked(request: Request) -> Any:
    """Enter the effect, then do what the body says; or fail before it."""
    _count(request)
    body = _body(request)
    if body.get("before") == "raise":
        raise OSError("no effect yet")
    if body.get("before") == "survive":
        _survive(request)
    if body.get("before") == "gate":
        _wait_at(body["gate"])
    with request.effect():
        _count(request, at="effect")
        if body.get("before") != "survive":
            _survive(request)
        return _do(body)


@_declared("coroutine", effect="marked")
async def coroutine(request: Request) -> Any:
    """Enter the effect on the event loop."""
    _count(request)
    async with request.effect():
        _count(request, at="effect")
    return {"id": request.request_id}


@_declared("booking", effect="transactional")
def booking(request: Request) -> Any:
    """Write into a table of the user's, in the journal's database."""
    from sqlalchemy import text  # only here: children of other tests start faster without it

    _count(request)
    request.connection.execute(
        text("INSERT INTO booking (request_id) VALUES (:id)"), {"id": request.request_id}
    )
    _survive(request)
    return _do(_body(request))


@_declared("flaky", retry_on=(ConnectionRefusedError,))
def flaky(request: Request) -> Any:
    """Fail, with nothing done, until the second generation."""
    _count(request)
    if request.generation < 2:
        raise ConnectionRefusedError("the bank refused the connection")
    _do(_body(request))
    return {"generation": request.generation}


if "modelled" in _TOPICS:
    # Only here: pydantic takes a child as long to import as all else together.
    from tests.consumer.payment import Payment

    @_declared("modelled", model=Payment)
    def modelled(request: Request) -> Any:
        """Take a payment that the model has accepted."""
        _count(request)
        payment: Payment = request.payload
        return {"amount": payment.amount}


@_declared("keyed", in_doubt="retry_same_key")
def keyed(request: Request) -> Any:
    """Ask a bank that knows its requests by their key."""
    _count(request)
    _survive(request)
    body = _body(request)
    if request.generation <= body.get("raises", 0):
        raise OSError("the bank is on fire")
    return {"generation": request.generation, "key": request.idempotency_key}


def _bank_says(request: Request) -> Any:
    _count(request, at="query")
    says = _body(request)["says"]
    if says == "raise":
        raise OSError("the bank is on fire")
    return ("happened", {"paid": True}) if says == "happened" else says


@_declared("asked", in_doubt="query", query=_bank_says)
def asked(request: Request) -> Any:
    """Pay at a bank that can be asked whether it has paid."""
    _count(request)
    _survive(request)
    return {"generation": request.generation, "voids": request.voids}


@_declared("limited", time_limit_s=1.0)
def limited(request: Request) -> Any:
    """Have an external effect within a second."""
    _count(request)
    _survive(request)
    return _do(_body(request))


@_declared("limited-booking", effect="transactional", time_limit_s=1.0)
def limited_booking(request: Request) -> Any:
    """Write into the user's table within a second."""
    return booking(request)
