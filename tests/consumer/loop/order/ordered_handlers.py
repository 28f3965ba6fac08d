"""Handlers of the workers under test that keep the order of their keys, and say when they run."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from consumer import Request
from tests.consumer.worker_handlers import _body, _declared, _wait_at


def _note(request: Request, at: str) -> None:
    line = {
        "at": at,
        "request_id": request.request_id,
        "generation": request.generation,
        "key": None if request.key is None else request.key.decode(),
        "number": _body(request).get("number"),
    }
    file = os.open(os.environ["TEST_RUNS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, json.dumps(line).encode() + b"\n")
    finally:
        os.close(file)


@_declared("booked", order="key", retry_on=ConnectionRefusedError, retries="400ms x 1, 2s x 3")
def booked(request: Request) -> Any:
    """Take as long as the body says, and fail in as many generations."""
    body = _body(request)
    _note(request, "start")
    try:
        if "gate" in body:
            _wait_at(body["gate"])
        time.sleep(body.get("takes_s", 0.0))
        if request.generation <= body.get("fails", 0):
            raise ConnectionRefusedError("the bank refused the connection")
    finally:
        _note(request, "end")
    return {"generation": request.generation}
