"""Handlers of dead letters for the workers under test; `TEST_LETTERS` names them (JSON).

Each line of `TEST_LETTERS_SEEN` is one run: what its handler got to see.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from consumer import InDoubt, Rejected, Request, handler

# From a handler's name to the topic whose letters it is given.
_SOURCES: dict[str, str] = json.loads(os.environ.get("TEST_LETTERS", "{}"))


def _declared(name: str, **settings: Any) -> Callable[[Any], Any]:
    if name not in _SOURCES:
        return lambda function: function
    return handler(dead_letters_of=_SOURCES[name], **settings)


def _note(request: Request) -> None:
    letter = request.dead_letter
    assert letter is not None
    seen = asdict(letter) | {
        "key": None if letter.key is None else letter.key.decode(),
        "id": request.request_id,
        "place": [request.topic, request.partition, request.offset],
        "value": None if request.value is None else request.value.decode(),
        "generation": request.generation,
        "attempt": request.attempt,
        "deadline_at": request.deadline_at,
        "timestamp_of_letter": request.timestamp,
    }
    file = os.open(os.environ["TEST_LETTERS_SEEN"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, json.dumps(seen).encode() + b"\n")
    finally:
        os.close(file)


def _do(request: Request) -> Any:
    _note(request)
    body = json.loads(request.value or b"{}")
    match body.get("then") if isinstance(body, dict) else None:
        case "raise":
            raise OSError("the tickets are away")
        case "reject":
            raise Rejected("NO_TICKET", "nobody wants it")
        case "doubt":
            raise InDoubt("the tickets did not answer")
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            threading.Event().wait()
        case "raise-twice" if request.generation < 3:
            raise TypeError("the tickets are away for a while")
    return {"ticket": request.dead_letter.request_id if request.dead_letter else None}


@_declared("filing")
def filing(request: Request) -> Any:
    """File a ticket; an error fails it."""
    return _do(request)


@_declared("keeping")
def keeping(request: Request) -> Any:
    """File a ticket for another topic."""
    return _do(request)


@_declared("insisting", on_error="retry")
def insisting(request: Request) -> Any:
    """File a ticket, until there is one."""
    return _do(request)


@_declared("marking", effect="marked")
def marking(request: Request) -> Any:
    """Fail within a marked effect."""
    with request.effect():
        return _do(request)
