"""The handler of the memory check: so slow that a million requests wait in the topic."""

from __future__ import annotations

import os
import time

from consumer import Request, handler
from tests.bench.plan import TOPIC_VARIABLE

TAKES_S = 0.5


@handler(topic=os.environ.get(TOPIC_VARIABLE, "bench"))
def slow(request: Request) -> None:
    """Take half a second."""
    time.sleep(TAKES_S)
