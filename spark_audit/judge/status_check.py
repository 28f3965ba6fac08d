"""The statuses of clients compared with the journal: all findings, all in doubt, and a sample."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from feedback.redis.store import StatusStore
from feedback.status import FINAL, State
from feedback.statuses import Status

BATCH = 500


@dataclass(frozen=True, slots=True)
class ToldRequest:
    """A request whose status is compared.

    Args:
        state: of its journal row; None without one.
        generation: of its journal row; 0 without one.
        ended_at: epoch ms at which the row became final; None when it is not.
    """

    request_id: str
    state: str | None
    generation: int
    ended_at: int | None


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A client that was told otherwise than the journal says."""

    request_id: str
    journal_state: str
    status: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a comparison.

    Args:
        requests: how many were compared.
    """

    requests: int
    disagreements: list[Disagreement]


def compare(
    store: StatusStore,
    requests: Iterable[ToldRequest],
    *,
    read_at_ms: int,
    grace_ms: int,
    ttl_s: Callable[[State], float],
    now_ms: int,
) -> Comparison:
    """Return the disagreements, and how many requests were compared.

    Args:
        requests: as the journal stood at `read_at_ms` (epoch ms).
        grace_ms: see `disagrees`.
        ttl_s: how long a status is kept, by the state of its row.

    Raises:
        RedisUnavailable: the statuses cannot be read.
    """
    compared, found = 0, list[Disagreement]()
    rest = iter(requests)
    while batch := list(islice(rest, BATCH)):
        compared += len(batch)
        found += _disagreements(
            batch,
            store.read_many([one.request_id for one in batch]),
            read_at_ms=read_at_ms,
            grace_ms=grace_ms,
            kept_since_ms=lambda state: now_ms - int(ttl_s(state) * 1000),
        )
    return Comparison(compared, found)


def disagrees(
    told: ToldRequest, status: Status, *, read_at_ms: int, grace_ms: int, kept_since_ms: int
) -> bool:
    """Say whether a status contradicts the journal's row (docs: The guarantee, Statuses).

    A status that was told after the journal was read is no contradiction: the request has moved on.
    Nor is a status that is gone because its time was over. But a run is told when its claim is
    committed, so a journal that was read later and does not have that run has lost commits.

    Args:
        grace_ms: the status of a later run is taken for one that was told before the reading if it
            is older by so much: the two times are of Redis' clock and of the database's.
    """
    if status.updated_at is not None and status.updated_at > read_at_ms:
        return False
    if status.generation > told.generation:
        was_told_before = (status.updated_at or read_at_ms) < read_at_ms - grace_ms
        if was_told_before or told.state is not None:
            return was_told_before
    is_final = told.state in FINAL  # a row's states are named as a client's
    if status.state is State.UNKNOWN:
        return is_final and told.ended_at is not None and told.ended_at > kept_since_ms
    if is_final:
        return str(status.state) != told.state
    # Nothing that the journal has not seen the end of may be told as ended.
    return status.state in FINAL


def _disagreements(
    batch: Sequence[ToldRequest],
    statuses: Sequence[Status],
    *,
    read_at_ms: int,
    grace_ms: int,
    kept_since_ms: Callable[[State], int],
) -> Iterator[Disagreement]:
    for told, status in zip(batch, statuses, strict=True):
        since_ms = kept_since_ms(State(told.state)) if told.state in FINAL else 0
        is_other = disagrees(
            told, status, read_at_ms=read_at_ms, grace_ms=grace_ms, kept_since_ms=since_ms
        )
        if is_other:
            # The same word of a later run needs its number.
            run = f" (generation {status.generation})" if told.state == status.state else ""
            yield Disagreement(told.request_id, told.state or "none", f"{status.state}{run}")
