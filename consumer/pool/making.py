"""The pool of a worker, made of its settings."""

from __future__ import annotations

from collections.abc import Iterable

from consumer.handlers.declaration import Handler
from consumer.handlers.fingerprint import digest
from consumer.pool import Pool, PoolSettings
from feedback.settings.settings import Settings


def make_pool(settings: Settings, handlers: Iterable[Handler]) -> Pool:
    """Return the pool; it has no child before it is started.

    Args:
        settings: those of the worker.
        handlers: as the worker has them, and as each child must.
    """
    worker = settings.worker
    return Pool(
        settings=PoolSettings(
            handlers=worker.handlers,
            group=settings.kafka.group,
            declarations=digest(handlers),
            processes=worker.processes,
            slots_per_process=worker.slots_per_process,
            spare_processes=worker.spare_processes,
            prefetch=worker.prefetch,
            max_result_bytes=worker.max_result_bytes,
            journal_url=settings.journal.url,
            start_timeout_s=worker.start_timeout_s,
            handover_timeout_s=worker.handover_timeout_s,
            memory_limit_bytes=worker.memory_limit_bytes or None,
            max_requests_per_child=worker.max_requests_per_child or None,
        )
    )
