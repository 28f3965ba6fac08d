"""Handlers that use all that a handler can ask for beside its own topic."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from consumer import Rejected, Request, handler

_TOPICS: dict[str, str] = json.loads(os.environ.get("TEST_TOPICS", "{}"))


@handler(
    topic=_TOPICS.get("pay", "pay"),
    effect="marked",
    retry_on=(ConnectionRefusedError,),
    retries="300ms x 2",
    outcome_topic=_TOPICS.get("outcomes", "outcomes"),
)
def pay(request: Request) -> str:
    """Fail once, or for good, or succeed."""
    if request.value == b"rejected":
        raise Rejected("CARD_EXPIRED", "the card has expired")
    if request.value == b"again" and request.generation == 1:
        raise ConnectionRefusedError("nobody was there")
    with request.effect():
        return "paid"


@handler(topic=_TOPICS.get("keep", "keep"), delivery="at_least_once", in_doubt="retry_same_key")
def keep(request: Request) -> str:
    """Wait as long as the file that it names is there."""
    gate = Path((request.value or b"").decode())
    while gate.is_file():
        time.sleep(0.05)
    return "kept"
