"""Reads the workers of a group: leases from the journal, heartbeats from Redis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import NamedTuple

from consumer.journal import JournalUnavailable
from consumer.journal.workers import HeldClaims, RegisteredWorker, Workers
from consumer.ops.workers.workers import (
    SeenHeartbeat,
    WorkerLoad,
    WorkerRow,
    WorkerState,
    decode_load,
    rows_of,
)
from feedback.errors import RedisUnavailable
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import Settings

# The most workers that are asked for, and the dead ones of them whose claims are counted.
MOST_WORKERS = 500
MOST_DEAD = 50
MOST_CLAIMS = 1000


class WorkersFound(NamedTuple):
    """The workers of a group.

    Args:
        away: why Redis was not asked, so that leases alone count; None where it answered.
        is_cut: only the `MOST_WORKERS` whose leases end last are there.
    """

    rows: list[WorkerRow]
    away: str | None
    is_cut: bool


def workers_of(settings: Settings) -> WorkersFound:
    """Return the workers of the settings' group.

    Raises:
        JournalUnavailable: the journal is away.
    """
    with closing(Workers.from_settings(settings)) as journal:
        registered = journal.registered(MOST_WORKERS)
        away = None
        heartbeats: Mapping[str, SeenHeartbeat] | None = None
        try:
            heartbeats = _heartbeats(settings, registered)
        except RedisUnavailable as error:
            away = str(error)
        rows = list(_with_claims(journal, rows_of(registered, heartbeats)))
    return WorkersFound(rows, away, is_cut=len(registered) == MOST_WORKERS)


def _heartbeats(
    settings: Settings, registered: Iterable[RegisteredWorker]
) -> Mapping[str, SeenHeartbeat]:
    """Return the heartbeats by worker.

    Raises:
        RedisUnavailable: Redis did not answer.
    """
    with closing(StatusStore(connect(settings.redis), settings.kafka.group, settings.redis)) as it:
        found = it.heartbeats([one.worker_id for one in registered])
    return {worker_id: _seen(*one) for worker_id, one in found.items()}


def _seen(value: bytes, age_s: float) -> SeenHeartbeat:
    load = decode_load(value)
    return SeenHeartbeat(load or WorkerLoad(), age_s, is_read=load is not None)


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
