"""Handlers of the workers under test that collapse; each call is a line in a file.

A body may say `applies` (what the predicate returns; true without it), and for predicate and
handler apart what `work` of `worker_handlers` is told: `{"asked": {"do": "raise"}}`. Where `before`
is "gate" the handler waits there before it dies.
"""

from __future__ import annotations

import threading
from typing import Any

from consumer import Request
from tests.consumer.loop.order.ordered_handlers import _note
from tests.consumer.worker_handlers import _body, _declared, _do, _survive, _wait_at


def _applies(request: Request) -> bool:
    """Say what the body says, and note that it was asked."""
    _note(request, "asked")
    body = _body(request)
    asked = body.get("asked", {})
    if asked.get("do") == "hang":
        threading.Event().wait()
    _do(asked)
    return bool(body.get("applies", True))


async def _applies_later(request: Request) -> bool:
    return _applies(request)


def _run(request: Request) -> Any:
    _note(request, "start")
    body = _body(request)
    if request.generation <= body.get("fails", 0):
        raise ConnectionRefusedError("the bank refused the connection")
    if body.get("before") == "gate":
        _wait_at(body["gate"])
    _survive(request)
    return _do(body)


@_declared("collapsed", order="key", collapse=_applies)
def collapsed(request: Request) -> Any:
    """Have an external effect."""
    return _run(request)


@_declared("collapsed-soon", order="key", collapse=_applies, time_limit_s=2)
def collapsed_soon(request: Request) -> Any:
    """Have an external effect, and not for long."""
    return _run(request)


@_declared(
    "retried", order="key", collapse=_applies, retry_on=ConnectionRefusedError, retries="300ms x 3"
)
def retried(request: Request) -> Any:
    """Fail in as many generations as the body says."""
    return _run(request)


@_declared("same-key", order="key", collapse=_applies, in_doubt="retry_same_key")
def same_key(request: Request) -> Any:
    """Die in as many generations as the body says, with a counterparty that knows its key."""
    return _run(request)


@_declared("committed", order="key", collapse=_applies, effect="transactional")
def committed(request: Request) -> Any:
    """Finish in the journal's own database."""
    return _run(request)


@_declared("awaited", order="key", collapse=_applies_later, effect="marked")
async def awaited(request: Request) -> Any:
    """Have an effect on the event loop."""
    _note(request, "start")
    async with request.effect():
        return None
