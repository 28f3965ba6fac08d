"""What a worker is made of beside its packages: its name, its handlers, its sweeper, its source."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Iterator, Sequence

from consumer.features.dead_letter_handlers import topics as letters
from consumer.handlers.declaration import Handler
from consumer.handlers.registry import HandlerRegistry
from consumer.journal.republish import Republication
from consumer.status.status_restore import StatusRestore
from consumer.status.status_writer import StatusWriter
from feedback.errors import NotAvailable, SettingsError
from feedback.kafka.source import KafkaSource
from feedback.observer import Observer
from feedback.redis.store import StatusStore
from feedback.settings.settings import Settings
from feedback.statuses import StatusWrite


def new_worker_id() -> str:
    """Return `<host>-<pid>-<random>`: one for the life of this process (contract, section 2)."""
    host = "".join(c if c.isalnum() or c in "._-" else "-" for c in socket.gethostname())[:64]
    return f"{host}-{os.getpid()}-{secrets.token_hex(4)}"


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


def open_source(
    settings: Settings, handlers: Sequence[Handler], observers: Sequence[Observer]
) -> KafkaSource:
    """Join the group and return its member; for the thread that is going to read.

    Args:
        handlers: those whose topics it reads.
        observers: hear how it gets on.

    Raises:
        NotAvailable: a topic is not there.
        OncewardError: Kafka is not.
    """
    letters.prepare_in_kafka(settings, handlers)
    source = KafkaSource(settings.kafka, [one.topic for one in handlers], observers)
    missing = source.missing(letters.expected(handlers))
    if missing:
        source.close()
        raise NotAvailable(
            f"Kafka at {settings.kafka.bootstrap_servers} has no topic {', '.join(missing)}: "
            "create it, or correct the handler's topic"
        )
    return source


def make_republisher(
    settings: Settings,
    *,
    worker_id: str,
    store: StatusStore,
    holding: Callable[[], Iterator[StatusWrite]],
    teller: StatusWriter,
) -> StatusRestore:
    """Return the thread that tells again what a restarted Redis forgot.

    Args:
        holding: the statuses of what this worker holds.
        teller: its backlog goes first.
    """
    return StatusRestore(
        republication=Republication(
            settings.journal.url,
            group=settings.kafka.group,
            worker_id=worker_id,
            statement_timeout_s=settings.journal.timeout_s,
        ),
        store=store,
        holding=holding,
        backlog=lambda: teller.backlog,
        status_ttl_s=settings.redis.status_ttl_s,
        resend_after_s=settings.client.resend_after_s,
        lease_s=settings.journal.lease_s,
    )
