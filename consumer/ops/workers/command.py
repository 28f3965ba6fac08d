"""`onceward-worker workers`: asks journal and Redis for the workers of the group."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace

import click

from consumer.dlq.list_page import console_for
from consumer.journal import JournalUnavailable
from consumer.journal.workers import HeldClaims, RegisteredWorker, Workers
from consumer.ops.workers.page import row_json, workers_page
from consumer.ops.workers.workers import SeenHeartbeat, WorkerRow, WorkerState, decode_load, rows_of
from feedback.console.commands import config_option, json_option, settings_of
from feedback.console.source import say_source
from feedback.errors import RedisUnavailable
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import Settings

# The most workers that are asked for, and the dead ones of them whose claims are counted.
MOST_WORKERS = 500
MOST_DEAD = 50
MOST_CLAIMS = 1000


@click.command()
@json_option
@config_option
def workers(as_json: bool, config: str | None) -> None:
    """List the workers of the group: whether each lives, what it does now, what the dead have left.

    A worker lives by its lease in the journal and its heartbeat in Redis. One that stops cleanly
    is not listed any more. Claims of a dead one go on by a peer's sweep, or end in doubt.

    \b
    Example:
      onceward-worker workers --config payments.toml
      onceward-worker workers --json --config payments.toml
    """
    settings = settings_of(config)
    with closing(Workers.from_settings(settings)) as journal:
        registered = journal.registered(MOST_WORKERS)
        rows = rows_of(registered, _heartbeats(settings, registered))
        rows = list(_with_claims(journal, rows))
    say_source(settings, as_json=as_json)
    if as_json:
        for one in rows:
            click.echo(json.dumps(row_json(one)))
        return
    if not rows:
        click.echo(f"group {settings.kafka.group} has no worker, and no dead one either")
        return
    console = console_for()
    console.print(workers_page(rows, width=console.width))
    if len(registered) == MOST_WORKERS:
        click.echo(f"only the {MOST_WORKERS} whose leases end last are listed")


def _heartbeats(
    settings: Settings, registered: Iterable[RegisteredWorker]
) -> Mapping[str, SeenHeartbeat] | None:
    """Return the heartbeats by worker; None, and a line about it, while Redis is away."""
    store = StatusStore(connect(settings.redis), settings.kafka.group, settings.redis)
    try:
        found = store.heartbeats([one.worker_id for one in registered])
    except RedisUnavailable as error:
        click.echo(f"heartbeats are not known, and leases alone are shown: {error}", err=True)
        return None
    finally:
        store.close()
    return {
        worker_id: SeenHeartbeat(decode_load(value), age_s)
        for worker_id, (value, age_s) in found.items()
    }


def _with_claims(journal: Workers, rows: Iterable[WorkerRow]) -> Iterator[WorkerRow]:
    asked, is_slow = 0, False
    for one in rows:
        if one.state is not WorkerState.DEAD:
            yield one
            continue
        asked += 1
        held: list[HeldClaims] | None = None
        if asked <= MOST_DEAD and not is_slow:
            try:
                held = journal.claims_of(one.worker_id, MOST_CLAIMS)
            except JournalUnavailable:
                is_slow = True  # nobody waits for fifty time-outs
        yield replace(one, held=held)
