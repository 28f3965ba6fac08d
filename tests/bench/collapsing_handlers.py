"""The handler of the collapse measurement: a quarter of a second for what one of many needs."""

from __future__ import annotations

import os
import time

from consumer import Request, handler
from tests.bench.plan import TOPIC_VARIABLE

TAKES_S = 0.25


def _always(request: Request) -> bool:
    """Let each stand in for the others."""
    return True


@handler(topic=os.environ.get(TOPIC_VARIABLE, "bench"), order="key", collapse=_always)
def recalculate(request: Request) -> None:
    """Take a quarter of a second."""
    time.sleep(TAKES_S)
