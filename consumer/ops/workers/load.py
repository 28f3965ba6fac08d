"""The content of a heartbeat: a worker's figures at that moment, for `onceward-worker workers`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from consumer.features.pausing.pausing import GUARD
from consumer.ops.health.vitals import Oldest, Vitals
from feedback import __version__

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
    """

    model_config = ConfigDict(frozen=True)

    held: int | None = None
    waiting: int | None = None
    slots: int | None = None
    slots_busy: int | None = None
    version: str | None = None
    oldest_s: float | None = None
    is_draining: bool = False
    paused: Mapping[str, str] = {}
    lag: Mapping[str, int] = {}


def load_of(seen: Vitals, oldest: Oldest | None, *, waiting: int) -> dict[str, Any]:
    """Return the content of the heartbeat of a worker with these vitals."""
    paused = {one.topic: GUARD if one.by == GUARD else "group" for one in seen.paused[:MAX_TOPICS]}
    furthest = sorted(seen.lag.items(), key=lambda one: -one[1])[:MAX_TOPICS]
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
    ).model_dump()


def decode_load(value: bytes) -> WorkerLoad:
    """Return the content of a heartbeat; an empty one where it is no heartbeat of ours."""
    try:
        return WorkerLoad.model_validate_json(value)
    except ValidationError:
        return WorkerLoad()
