"""The facts of a group's workers, one row for each. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from consumer.journal.workers import HeldClaims, RegisteredWorker
from consumer.ops.workers.load import WorkerLoad


class WorkerState(StrEnum):
    """Whether a worker lives, by its lease in the journal and its heartbeat in Redis."""

    LIVES = "lives"
    DRAINS = "drains"
    NO_HEARTBEAT = "no heartbeat"
    LEASE_OVER = "lease over"
    DEAD = "dead"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SeenHeartbeat:
    """A heartbeat that Redis still has.

    Attributes:
        age_s: since it was written.
    """

    load: WorkerLoad
    age_s: float


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One worker of the group.

    Attributes:
        lease_left_s: negative since it is over.
        heartbeat: None where Redis has none, or was not asked.
        held: the claims that a dead worker has left, by topic; None where that is not known.
    """

    worker_id: str
    host: str
    state: WorkerState
    started_at: int
    lease_left_s: float
    heartbeat: SeenHeartbeat | None
    held: Sequence[HeldClaims] | None = ()

    @property
    def oldest_s(self) -> float | None:
        """The age of its oldest request now."""
        if self.heartbeat is None or self.heartbeat.load.oldest_s is None:
            return None
        return self.heartbeat.load.oldest_s + self.heartbeat.age_s


def state_of(
    lease_left_s: float, heartbeat: SeenHeartbeat | None, *, redis_away: bool
) -> WorkerState:
    """Return whether a worker lives.

    While Redis is away a lease that is over says nothing certain: its database may be away.
    """
    has_lease = lease_left_s > 0
    if redis_away:
        return WorkerState.LIVES if has_lease else WorkerState.UNKNOWN
    if heartbeat is None:
        return WorkerState.NO_HEARTBEAT if has_lease else WorkerState.DEAD
    if not has_lease:
        return WorkerState.LEASE_OVER
    return WorkerState.DRAINS if heartbeat.load.is_draining else WorkerState.LIVES


def rows_of(
    registered: Iterable[RegisteredWorker],
    heartbeats: Mapping[str, SeenHeartbeat] | None,
) -> list[WorkerRow]:
    """Return a row for each worker, the living first, then the newest first.

    Args:
        heartbeats: by worker; None while Redis is away.
    """
    rows = []
    for one in registered:
        heartbeat = None if heartbeats is None else heartbeats.get(one.worker_id)
        state = state_of(one.lease_left_ms / 1000, heartbeat, redis_away=heartbeats is None)
        rows.append(
            WorkerRow(
                worker_id=one.worker_id,
                host=host_of(one.worker_id),
                state=state,
                started_at=one.started_at,
                lease_left_s=one.lease_left_ms / 1000,
                heartbeat=heartbeat,
            )
        )
    return sorted(rows, key=lambda one: (one.state is WorkerState.DEAD, -one.started_at))


def host_of(worker_id: str) -> str:
    """Return the host in a worker's id.

    >>> host_of("pay-1.example-4711-9f3a")
    'pay-1.example'
    """
    return worker_id.rsplit("-", 2)[0]
