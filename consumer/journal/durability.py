"""The settings of a PostgreSQL that the promises rest on, and a worker's share, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from consumer.handlers.declaration import EffectKind, Handler
from consumer.journal.standing import DatabaseSettings, Standby

# Its loop, its lease, its sweeps, its pauses, its dead letters, and for a moment the restore of an
# empty Redis.
_OF_WORKER = 6
_LOST = "a crash of its machine loses or breaks what was acknowledged, and requests run again"


def connections(slots: int, handlers: Sequence[Handler]) -> int:
    """Return how many connections a worker with these handlers has at most."""
    of_slots = slots if any(one.effect is EffectKind.TRANSACTIONAL for one in handlers) else 0
    outcomes = any(one.outcome_topic is not None for one in handlers)
    return _OF_WORKER + outcomes + of_slots


def faults(standing: DatabaseSettings, *, wanted: int) -> Iterator[str]:
    """Yield settings that break a promise or cost time, and that no session can change.

    Args:
        wanted: how many connections one worker has at most.
    """
    if not standing.fsync:
        yield f"fsync is off: {_LOST}; turn it on"
    if not standing.full_page_writes:
        yield f"full_page_writes is off: {_LOST}; turn it on"
    if wanted > standing.connections_limit:
        yield (
            f"one worker takes up to {wanted} connections and max_connections leaves "
            f"{standing.connections_limit} for all: raise it, or put a pooler before it"
        )


def described(standing: DatabaseSettings, *, wanted: int) -> Iterator[str]:
    """Yield the other settings, and the consequence of each.

    Args:
        wanted: how many connections one worker has at most.
    """
    yield f"isolation {standing.isolation}" + _unless(standing.isolation, "read committed")
    commit = standing.synchronous_commit
    yield f"synchronous_commit {commit}" + _unless(commit, "on")
    yield (
        f"{standing.connections} of {standing.connections_limit} connections open, "
        f"a worker takes up to {wanted}"
    )
    if standing.is_pooled:
        yield "behind a pooler"
    for standby in standing.standbys:
        yield f"standby {standby.name} {_said_of(standby)}"


def _unless(is_set: str, wanted: str) -> str:
    return "" if is_set == wanted else f" (transactions of ours ask for {wanted})"


def _said_of(standby: Standby) -> str:
    match standby.is_synchronous:
        case True:
            return "is synchronous"
        case False:
            return (
                "is ASYNCHRONOUS: do not fail over to it, it may lack claims that were granted, "
                "and their requests run twice"
            )
    return "may be asynchronous: ask as a member of pg_monitor before you fail over to it"
