"""The handler of the retry measurement: one request in ten fails twice, then it succeeds."""

from __future__ import annotations

import os

from consumer import Rejected, Request, handler
from tests.bench.plan import TOPIC_VARIABLE

BUSY = "COUNTERPARTY_BUSY"
FAILING = b"failing"
FAILS = 2


@handler(
    topic=os.environ.get(TOPIC_VARIABLE, "bench"),
    retry_on=BUSY,
    retries="500ms, 1s, 2s",
)
def sometimes_busy(request: Request) -> None:
    """Fail twice where the payload says so."""
    if request.value == FAILING and request.generation <= FAILS:
        raise Rejected(BUSY)
