"""The handler of the measurement of duplicates: it does nothing but leave word that it ran."""

from __future__ import annotations

import os

from consumer import Request, handler
from tests.bench.plan import TOPIC_VARIABLE

RUNS_VARIABLE = "BENCH_RUNS"


@handler(topic=os.environ.get(TOPIC_VARIABLE, "bench"))
def count(request: Request) -> None:
    """Append the request's id to a file, in one write."""
    runs = os.open(os.environ[RUNS_VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(runs, request.request_id.encode() + b"\n")
    finally:
        os.close(runs)
