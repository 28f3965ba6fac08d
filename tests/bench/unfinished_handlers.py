"""The handler of the measurement of killed workers: each run marks its begin and its end."""

from __future__ import annotations

import time

from consumer import Request
from tests.consumer.worker_handlers import _count, _declared

TAKES_S = 0.1


@_declared("flight", delivery="at_least_once", in_doubt="retry_same_key")
def flight(request: Request) -> None:
    """Take a while."""
    _count(request)
    time.sleep(TAKES_S)
    _count(request, at="end")
