"""A worker needs a name, handlers, the size of its pool, and a group to join."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterable, Sequence

from consumer.features.dead_letter_handlers import letter_topics as letters
from consumer.handlers.declaration import Handler
from consumer.handlers.fingerprint import digest
from consumer.handlers.registry import HandlerRegistry
from consumer.pool import PoolSettings
from feedback import logs
from feedback.errors import NotAvailable, SettingsError
from feedback.kafka.source import KafkaSource
from feedback.kafka.topic_facts import not_there
from feedback.kafka.topics import KafkaTopics
from feedback.observer import Observer
from feedback.settings.settings import Settings

# A longer field makes Redis keep a request's whole hash as a table, in more than twice the memory.
_MOST_OF_A_FIELD = 64


def new_worker_id() -> str:
    """Return `<host>-<pid>-<random>`: one for the life of this process (docs: Words)."""
    return worker_id_on(socket.gethostname())


def worker_id_on(host: str) -> str:
    """Return the name of a worker on a host; of a long name the end, which tells pods apart."""
    own = f"-{os.getpid()}-{secrets.token_hex(4)}"
    allowed = "".join(c if c.isalnum() or c in "._-" else "-" for c in host)
    return allowed[len(own) - _MOST_OF_A_FIELD :] + own


def load_registry(settings: Settings) -> HandlerRegistry:
    """Return the handlers that the settings name.

    Raises:
        SettingsError: there are none, or they do not import.
    """
    if not settings.worker.handlers:
        raise SettingsError(
            "[worker] handlers: name the modules that hold your handlers, "
            'for example handlers = ["payments.handlers"]'
        )
    registry = HandlerRegistry.load(settings.worker.handlers, group=settings.kafka.group)
    registry.load_schemas()
    return registry


def pool_settings(
    settings: Settings, handlers: Iterable[Handler], *, worker_id: str
) -> PoolSettings:
    """Return the size of the pool, and the declarations that each child must have as well."""
    worker = settings.worker
    return PoolSettings(
        log_level=logs.level(),
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
        worker_id=worker_id,
    )


def require_topics(settings: Settings, handlers: Iterable[Handler]) -> None:
    """Return when the topics of requests exist: else a worker would say that it started, and end.

    Raises:
        NotAvailable: one does not, or Kafka does not answer.
    """
    wanted = letters.expected(handlers)
    there = KafkaTopics(settings.kafka, create=False).visible(wanted)
    if missing := sorted({*wanted} - {*there}):
        advice = ": create it (onceward-worker topics --create), or correct the handler's topic"
        reason = not_there(settings.kafka, missing, advice=advice)
        raise NotAvailable(f"Kafka at {settings.kafka.bootstrap_servers} {reason}")


def open_source(
    settings: Settings, handlers: Sequence[Handler], observers: Sequence[Observer]
) -> KafkaSource:
    """Join the group and return its member; for the thread that is going to read.

    Args:
        handlers: those whose topics it reads.
        observers: hear how it gets on.

    Raises:
        OncewardError: Kafka is not there.
    """
    letters.prepare_in_kafka(settings, handlers)
    return KafkaSource(settings.kafka, [one.topic for one in handlers], observers)
