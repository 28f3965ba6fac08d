"""The facts of a group's workers, one row for each. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from consumer.features.pausing.paused import GUARD
from consumer.handlers.declaration import Handler
from consumer.journal.workers import HeldClaims, RegisteredWorker
from consumer.ops.health.pace import TopicPace, WorkersPace
from consumer.ops.workers.declared import promise_words
from feedback import __version__

if TYPE_CHECKING:
    # A worker writes its heartbeat by it, and has it; who reads heartbeats needs no worker.
    from consumer.ops.health.vitals import OldestRequest, Vitals

# A heartbeat is written three times in `heartbeat_ttl_s`: it stays small.
MAX_TOPICS = 20


class WorkerLoad(BaseModel):
    """A worker's figures; None where its version writes none.

    Attributes:
        held: requests that are claimed and not finished in the journal.
        waiting: committed requests without a claim.
        oldest_s: the age of the request in hand for longest. Never its key: that may be a card
            number.
        paused: topics that it does not run, and by whom: `guard`, its own, or `group`.
        lag: records that wait in Kafka for it, by topic, where it counts them.
        pace: of the requests that have ended in it in the last hour, by topic.
        handlers: their declarations in a line, by topic.
    """

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    held: int | None = None
    waiting: int | None = None
    slots: int | None = None
    slots_busy: int | None = None
    version: str | None = None
    oldest_s: float | None = None
    is_draining: bool = False
    paused: Mapping[str, str] = {}
    lag: Mapping[str, int] = {}
    pace: Mapping[str, TopicPace] = {}
    handlers: Mapping[str, str] = {}


def load_of(
    seen: Vitals,
    oldest: OldestRequest | None,
    *,
    waiting: int,
    pace: Mapping[str, TopicPace],
    handlers: Sequence[Handler],
) -> dict[str, Any]:
    """Return the content of the heartbeat of a worker with these vitals."""
    paused = {one.topic: GUARD if one.by == GUARD else "group" for one in seen.paused[:MAX_TOPICS]}
    furthest = sorted(seen.lag.items(), key=lambda one: -one[1])[:MAX_TOPICS]
    busiest = sorted(pace.items(), key=lambda one: -one[1].ended)[:MAX_TOPICS]
    return WorkerLoad(
        held=seen.held,
        waiting=waiting,
        slots=seen.slots,
        slots_busy=seen.slots_busy,
        version=__version__,
        oldest_s=None if oldest is None else oldest.age_s,
        is_draining=seen.is_draining,
        paused=paused,
        lag=dict(furthest),
        pace=dict(busiest),
        handlers={one.topic: promise_words(one) for one in handlers[:MAX_TOPICS]},
    ).model_dump()


def decode_load(value: bytes) -> WorkerLoad | None:
    """Return the content of a heartbeat; None where it is none of our version."""
    try:
        return WorkerLoad.model_validate_json(value)
    except ValidationError:
        return None


UNREADABLE = "the content of its heartbeat cannot be read"


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
        load: an empty one where it cannot be read.
        age_s: since it was written.
        is_read: an empty load says nothing otherwise, also not that no topic is paused.
    """

    load: WorkerLoad
    age_s: float
    is_read: bool = True


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


def paces_of(rows: Iterable[WorkerRow]) -> dict[str, WorkersPace]:
    """Return the pace of each topic on all workers that have a heartbeat, the busiest first."""
    paces: dict[str, list[TopicPace]] = {}
    for one in rows:
        for topic, pace in (one.heartbeat.load.pace if one.heartbeat else {}).items():
            paces.setdefault(topic, []).append(pace)
    found = {topic: WorkersPace(one) for topic, one in paces.items()}
    return dict(sorted(found.items(), key=lambda one: (-one[1].per_s, one[0])))


def host_of(worker_id: str) -> str:
    """Return the host in a worker's id.

    >>> host_of("pay-1.example-4711-9f3a")
    'pay-1.example'
    """
    return worker_id.rsplit("-", 2)[0]
