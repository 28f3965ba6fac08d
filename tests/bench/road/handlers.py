"""The handler that is measured, with a mark; the worker that imports it marks its own steps."""

from __future__ import annotations

import multiprocessing
import os

from consumer import Request, handler
from tests.bench.plan import TOPIC_VARIABLE
from tests.bench.road.marks import mark

if multiprocessing.parent_process() is None:
    from tests.bench.road.worker import mark_worker

    mark_worker()


@handler(topic=os.environ.get(TOPIC_VARIABLE, "bench"))
def noop(request: Request) -> None:
    """Do nothing."""
    mark("handled", [request.request_id])
