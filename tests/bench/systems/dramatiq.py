"""Dramatiq with Redis."""

from __future__ import annotations

from tests.bench import plan
from tests.bench.systems.peer import Peer, redis_databases

DRAMATIQ = Peer(
    product="dramatiq",
    worker=(
        "-m",
        "dramatiq",
        "tests.bench.systems.dramatiq_tasks",
        f"--processes={plan.PROCESSES}",
    ),
    client="tests.bench.systems.dramatiq_client",
    server="redis",
    opened=redis_databases(broker=3, results=4),
    settings=(
        f"{plan.PROCESSES} processes x 8 threads, default settings; Redis as broker and as result "
        "backend, hiredis installed; a group and its wait for a burst, send and get_result for a "
        "rate"
    ),
    promise=(
        "seen final by its result in Redis; acknowledged after it ran: runs again after a worker "
        "that is killed, and no journal"
    ),
)
