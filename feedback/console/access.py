"""Looks whether Kafka and Redis let us in, before a process that waits for outages begins.

Such a process would start beside a server that refuses it, and say so in its log alone. Service
managers and deployments look at the exit code.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from feedback.errors import NotAvailable
from feedback.kafka.admin import administrator
from feedback.redis.server import connect, guarded
from feedback.settings.settings import Settings

KAFKA_S = 5.0


def require_access(settings: Settings) -> None:
    """Return when Kafka and Redis let us in, or are away: an outage is waited for later.

    Raises:
        NotAvailable: one of them refuses us, or we refuse it; see `NotAvailable.fault`.
    """
    # Both at once: one that hangs takes seconds to be known as away.
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda ask: require_let_in(lambda: ask(settings)), _ASKS))


def require_let_in(ask: Callable[[], object]) -> None:
    """Return when the server that is asked lets us in, or is away.

    Raises:
        NotAvailable: see `require_access`.
    """
    try:
        ask()
    except NotAvailable as error:
        if error.fault is not None:
            raise


def _ask_redis(settings: Settings) -> None:
    with closing(connect(settings.redis)) as redis, guarded():
        redis.connection_pool.release(redis.connection_pool.get_connection())


def _ask_kafka(settings: Settings) -> None:
    with administrator(settings.kafka, timeout_s=KAFKA_S):
        pass


_ASKS = (_ask_redis, _ask_kafka)
