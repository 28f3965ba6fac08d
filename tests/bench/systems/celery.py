"""Celery with prefork and Redis."""

from __future__ import annotations

from tests.bench import plan
from tests.bench.systems.peer import Peer, redis_databases

CELERY = Peer(
    product="celery",
    worker=(
        "-m",
        "celery",
        "--app=tests.bench.systems.celery_tasks",
        "worker",
        "--pool=prefork",
        f"--concurrency={plan.PROCESSES}",
        "--loglevel=WARNING",
    ),
    client="tests.bench.systems.celery_client",
    server="redis",
    opened=redis_databases(broker=1, results=2),
    settings=(
        f"prefork, {plan.PROCESSES} processes, default settings; Redis as broker and as result "
        "backend, hiredis installed; delay and join_native for a burst, delay and get for a rate"
    ),
    promise=(
        "seen final by its result in Redis; acknowledged before it runs: lost with a worker that "
        "is killed, and no journal"
    ),
)
