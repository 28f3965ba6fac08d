"""The handlers of the workers under test that fail for a while, and say that nothing happened."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import Any

from consumer import Rejected, Request
from tests.consumer.worker_handlers import _body, _count, _declared, _wait_at

if "TEST_DIES_BEFORE_RECORD" in os.environ:
    # Only here: they import the client of Kafka, which no child needs.
    from consumer.features.retries.headers import WakeUp
    from consumer.features.retries.retry_sender import RetrySender

    def _die(self: RetrySender, wakeups: Sequence[WakeUp]) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    RetrySender.send = _die  # type: ignore[assignment,method-assign]


def _fail(request: Request) -> Any:
    _count(request)
    body = _body(request)
    if request.generation <= body.get("fails", 0):
        raise ConnectionRefusedError("the bank refused the connection")
    if request.generation <= body.get("busy", 0):
        raise Rejected("BANK_BUSY", "try again later")
    if "rejects" in body:
        raise Rejected("CARD_EXPIRED", "the card has expired")
    return {"generation": request.generation}


@_declared("tiers", retry_on=(ConnectionRefusedError, "BANK_BUSY"), retries="300ms x 2, 900ms x 2")
def tiers(request: Request) -> Any:
    """Fail in as many generations as the body says."""
    return _fail(request)


@_declared("figure", retry_on=(ConnectionRefusedError,), retries="1s x 2, 5s x 2")
def figure(request: Request) -> Any:
    """Fail in as many generations as the body says."""
    return _fail(request)


@_declared("later", effect="marked", retry_on=ConnectionRefusedError, retries="6s x 2")
def later(request: Request) -> Any:
    """Fail in as many generations as the body says, after the effect was entered."""
    with request.effect():
        return _fail(request)


@_declared("gated", retry_on=ConnectionRefusedError, retries="1s x 2")
def gated(request: Request) -> Any:
    """Wait at the gate that the body names, then fail in as many generations as it says."""
    body = _body(request)
    if request.generation == 1:
        _wait_at(body["gate"])
    return _fail(request)


@_declared("seats", effect="transactional", retry_on=Exception, retries="200ms x 2")
def seats(request: Request) -> Any:
    """Write, and then fail in as many generations as the body says."""
    from sqlalchemy import text  # only here: children of other tests start faster without it

    request.connection.execute(
        text("INSERT INTO booking (request_id) VALUES (:id)"), {"id": request.request_id}
    )
    return _fail(request)
