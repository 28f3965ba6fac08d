"""Onceward on a journal: a topic, a group and a journal of its own, a worker and a client."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType

from kafka.admin import KafkaAdminClient, NewTopic

from tests.bench import plan
from tests.bench.launching import run, running
from tests.bench.systems.trial import Trial, server_meters
from tests.stack import Servers
from tests.stack.postgres import fresh_database

MIGRATE_LIMIT_S = 60.0
WORKER = (sys.executable, "-m", "consumer", "run")
CLIENT = "tests.bench.systems.onceward_client"
HANDLERS = "tests.bench.handlers"


def settings_text() -> str:
    """Return the settings that are measured, for people."""
    slots = plan.PROCESSES * plan.SLOTS_PER_PROCESS
    return (
        f"worker {plan.PROCESSES} processes x {plan.SLOTS_PER_PROCESS} slots = {slots}, "
        f"buffer {plan.BUFFER_LIMIT}, prefetch {plan.PREFETCH}, {plan.PARTITIONS} partitions; "
        f"SQLite WAL with synchronous=FULL on disk, PostgreSQL with synchronous_commit=on; "
        f"one client, send_many followed by wait_many, or send and wait"
    )


@contextmanager
def onceward(
    servers: Servers,
    *,
    journal: str,
    folder: Path,
    handlers: str = HANDLERS,
    client: str = CLIENT,
    changes: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Trial]:
    """Yield a worker on a fresh topic and journal, with its submitting process.

    Args:
        journal: `sqlite` or `postgres`.
        folder: for the journal and the logs of this trial.
        handlers: the worker's module of handlers.
        client: the module of the submitting process.
        changes: of the environment of both.
    """
    with ExitStack() as opened:
        topic = opened.enter_context(fresh_topic(servers.kafka))
        url = opened.enter_context(fresh_journal(servers, journal, folder))
        environ = {**environment(servers, url, topic=topic, handlers=handlers), **changes}
        migrate(environ, folder)
        worker = opened.enter_context(running(WORKER, environ=environ, log=folder / "worker.log"))
        submitting = opened.enter_context(
            running(
                (sys.executable, "-m", client),
                environ=environ,
                log=folder / "client.log",
                talks=True,
            )
        )
        meters = server_meters(servers)
        if journal != "postgres":
            meters.pop("postgres", None)
        yield Trial(worker=worker, submitting=submitting, servers=meters)


def environment(servers: Servers, url: str, *, topic: str, handlers: str) -> dict[str, str]:
    """Return the environment of worker and client, on a journal of their own."""
    settings: Mapping[str, object] = {
        "KAFKA__GROUP": f"bench-{uuid.uuid4().hex}",
        "JOURNAL__URL": url,
        "CLIENT__TOPIC": topic,
        "WORKER__HANDLERS": handlers,
        "WORKER__PROCESSES": plan.PROCESSES,
        "WORKER__SLOTS_PER_PROCESS": plan.SLOTS_PER_PROCESS,
        "WORKER__BUFFER_LIMIT": plan.BUFFER_LIMIT,
        "WORKER__PREFETCH": plan.PREFETCH,
    }
    named = {f"ONCEWARD_{name}": str(value) for name, value in settings.items()}
    return {**os.environ, **servers.settings(), **named, plan.TOPIC_VARIABLE: topic}


def migrate(environ: Mapping[str, str], folder: Path) -> None:
    """Make the journal's tables.

    Raises:
        BenchError: the command failed.
    """
    argv = [sys.executable, "-m", "consumer", "migrate"]
    run(argv, environ=environ, log=folder / "migrate.log", timeout_s=MIGRATE_LIMIT_S)


@contextmanager
def fresh_topic(bootstrap_servers: str, *, partitions: int = plan.PARTITIONS) -> Iterator[str]:
    """Yield a new topic, deleted after the block."""
    name = f"bench-{uuid.uuid4().hex}"
    # One client for each call: a client kept open has threads, and what follows forks.
    with KafkaAdminClient(bootstrap_servers=bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, partitions, 1)])
        admin.wait_for_topics([name])
    try:
        yield name
    finally:
        with KafkaAdminClient(bootstrap_servers=bootstrap_servers) as admin:
            admin.delete_topics([name])


@contextmanager
def fresh_journal(servers: Servers, journal: str, folder: Path) -> Iterator[str]:
    """Yield the URL of a new journal; `journal` is `sqlite` or `postgres`."""
    if journal == "sqlite":
        yield f"sqlite:///{folder / 'journal.db'}"
    else:
        with fresh_database(servers.postgres, f"bench_{uuid.uuid4().hex}") as url:
            yield url
