"""Handlers that fail for a moment, of the tests of tries within one run."""

from __future__ import annotations

import os
from pathlib import Path

from consumer import Rejected, Request, handler

_calls: dict[str, int] = {}


def _called(request: Request) -> int:
    _calls[request.request_id] = _calls.get(request.request_id, 0) + 1
    return _calls[request.request_id]


def _fail_until(request: Request, calls: int) -> int:
    count = _called(request)
    if count < calls:
        raise ConnectionRefusedError(f"call {count}")
    return count


@handler(
    topic="trying", effect="marked", retry_on=(ConnectionRefusedError, "BUSY"), blocking="5ms x 3"
)
def trying(request: Request) -> int:
    """Fail as often as the body says, and enter the effect each time."""
    with request.effect():
        return _fail_until(request, request.json())


@handler(topic="trying-both", retry_on=ConnectionRefusedError, blocking="1ms", retries="1s")
def trying_both(request: Request) -> int:
    """Fail as often as the body says."""
    return _fail_until(request, request.json())


@handler(topic="trying-code", retry_on="BUSY", blocking="1ms x 2")
def trying_code(request: Request) -> int:
    """Be rejected twice."""
    count = _called(request)
    if count < 3:
        raise Rejected("BUSY", "later")
    return count


@handler(
    topic="trying-coroutine", effect="marked", retry_on=ConnectionRefusedError, blocking="5ms x 3"
)
async def trying_coroutine(request: Request) -> int:
    """Fail as often as the body says, on the event loop."""
    async with request.effect():
        return _fail_until(request, request.json())


@handler(
    topic="trying-long",
    retry_on=ConnectionRefusedError,
    blocking="100ms x 50",
    blocking_within_s=0.35,
)
def trying_long(request: Request) -> int:
    """Fail for ever."""
    return _fail_until(request, 10**6)


@handler(topic="trying-fatal", retry_on=OSError, blocking="1ms x 9")
def trying_fatal(request: Request) -> int:
    """Fail with what was not declared."""
    _called(request)
    Path(os.environ["TEST_CALLS"]).write_text(str(_calls[request.request_id]))
    raise TypeError("no")
