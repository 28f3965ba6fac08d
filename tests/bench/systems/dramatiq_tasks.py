"""The Dramatiq actor that is measured; imported by its worker and by the submitting process.

Default settings, but for the two databases of Redis, and the result backend that a client needs to
see an end.
"""

from __future__ import annotations

import os
from typing import Any

import dramatiq  # type: ignore[import-not-found]
from dramatiq.brokers.redis import RedisBroker  # type: ignore[import-not-found]
from dramatiq.results import Results  # type: ignore[import-not-found]
from dramatiq.results.backends import RedisBackend  # type: ignore[import-not-found]

broker = RedisBroker(url=os.environ["BENCH_BROKER"])
broker.add_middleware(Results(backend=RedisBackend(url=os.environ["BENCH_RESULTS"])))
dramatiq.set_broker(broker)


def _noop(payload: dict[str, Any]) -> None:
    """Do nothing."""


noop = dramatiq.actor(_noop, actor_name="noop", store_results=True)
