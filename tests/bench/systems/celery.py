"""Celery with prefork and Redis: its worker and its client, in an environment of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from tests.bench import plan
from tests.bench.launching import running
from tests.bench.systems.celery_environment import celery_python, pinned
from tests.bench.systems.trial import Trial, server_meters
from tests.stack import Servers

APPLICATION = "tests.bench.systems.celery_tasks"
CLIENT = "tests.bench.systems.celery_client"
BROKER_DATABASE = 1
RESULT_DATABASE = 2


def settings_text() -> str:
    """Return the settings that are measured, for people."""
    return (
        f"Celery {pinned('celery')}, prefork, {plan.PROCESSES} processes, default settings; "
        "Redis as broker and as result backend, hiredis installed; "
        "delay and join_native for a burst, delay and get for a rate"
    )


@contextmanager
def celery(servers: Servers, *, folder: Path) -> Iterator[Trial]:
    """Yield a worker with its submitting process, on two databases of our Redis.

    Raises:
        BenchError: Celery cannot be installed.
    """
    python = str(celery_python())
    environ = {
        **os.environ,
        "BENCH_BROKER": with_database(servers.redis, BROKER_DATABASE),
        "BENCH_RESULTS": with_database(servers.redis, RESULT_DATABASE),
    }
    options = ("--pool=prefork", f"--concurrency={plan.PROCESSES}", "--loglevel=WARNING")
    worker_argv = [python, "-m", "celery", f"--app={APPLICATION}", "worker", *options]
    with ExitStack() as opened:
        worker = opened.enter_context(
            running(worker_argv, environ=environ, log=folder / "worker.log")
        )
        submitting = opened.enter_context(
            running([python, "-m", CLIENT], environ=environ, log=folder / "client.log", talks=True)
        )
        meters = server_meters(servers)
        used = {name: meter for name, meter in meters.items() if name == "redis"}
        yield Trial(worker=worker, submitting=submitting, servers=used)


def with_database(url: str, number: int) -> str:
    """Return the URL of another database of the same Redis.

    >>> with_database("redis://127.0.0.1:6379/0", 2)
    'redis://127.0.0.1:6379/2'
    """
    return urlunsplit(urlsplit(url)._replace(path=f"/{number}"))
