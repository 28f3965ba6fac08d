"""The handler that is measured: it does nothing, with the default declaration.

The topic is chosen for each run and read from `BENCH_TOPIC`, which workers and children inherit.
"""

from __future__ import annotations

import os

from consumer import Request, handler
from tests.bench.plan import TOPIC_VARIABLE


@handler(topic=os.environ.get(TOPIC_VARIABLE, "bench"))
def noop(request: Request) -> None:
    """Do nothing."""
