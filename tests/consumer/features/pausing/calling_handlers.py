"""Handlers of the workers under test that call a bank; a file says that it is down."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from consumer import Rejected, Request
from tests.consumer.worker_handlers import _body, _count, _declared

DOWN = "TEST_BANK_DOWN"


def _call(request: Request) -> Any:
    _count(request)
    body = _body(request)
    if body.get("do") == "reject":
        raise Rejected("CARD_EXPIRED", "the card has expired")
    time.sleep(body.get("takes_s", 0.0))
    if Path(os.environ[DOWN]).exists():
        raise ConnectionRefusedError("the bank does not answer")
    return {"generation": request.generation}


@_declared("calling", effect="marked")
def calling(request: Request) -> Any:
    """Fail before the effect while the bank is down."""
    return _call(request)


@_declared("doubting")
def doubting(request: Request) -> Any:
    """End in doubt while the bank is down."""
    return _call(request)


@_declared("trying", effect="marked", retry_on=ConnectionRefusedError, retries="300ms x 50")
def trying(request: Request) -> Any:
    """Run again while the bank is down."""
    return _call(request)
