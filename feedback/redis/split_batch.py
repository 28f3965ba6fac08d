"""Splits batches with a status at fault: the others are still written, and read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from feedback.errors import NewerStatus, RedisRefused
from feedback.redis.store import StatusStore
from feedback.statuses import Refused, Status, StatusWrite

BATCH = 256
# Far below the server's limit for one command, and short enough to let others in.
BATCH_BYTES = 4_000_000


class StatusReads(Protocol):
    """Reads statuses, in the order of the ids."""

    def read_many(self, request_ids: Sequence[str]) -> list[Status]: ...


def batches(
    writes: Iterable[StatusWrite], *, most: int = BATCH, most_bytes: int = BATCH_BYTES
) -> Iterator[list[StatusWrite]]:
    """Yield the writes in batches for one call each.

    Args:
        most_bytes: of their results and messages together; a single write may have more.
    """
    batch: list[StatusWrite] = []
    size_bytes = 0
    for write in writes:
        size_bytes += write.size_bytes
        if batch and (len(batch) == most or size_bytes > most_bytes):
            yield batch
            batch, size_bytes = [], write.size_bytes
        batch.append(write)
    if batch:
        yield batch


def write_apart(
    store: StatusStore, writes: Sequence[StatusWrite], *, look_at: int | None = None
) -> list[Refused | RedisRefused | None]:
    """Write a batch as `StatusStore.write` does; an error for each write that Redis refuses.

    A batch that is refused as a whole is halved until the write at fault is alone: about 2 log2(n)
    calls.

    Raises:
        RedisUnavailable: the write may or may not have been done; repeating is harmless.
    """
    try:
        return [*store.write(writes, look_at=look_at)]
    except RedisRefused as refused:
        if len(writes) == 1:
            return [refused]
    middle = len(writes) // 2
    return [
        *write_apart(store, writes[:middle], look_at=look_at),
        *write_apart(store, writes[middle:], look_at=look_at),
    ]


def read_apart(
    statuses: StatusReads, request_ids: Sequence[str], unreadable: list[str]
) -> Iterator[Status]:
    """Yield the valid statuses; other values are left out.

    A batch with an unreadable status is halved until that is alone.

    Args:
        unreadable: gets the requests whose key has another value.

    Raises:
        RedisUnavailable: Redis did not answer.
    """
    try:
        yield from statuses.read_many(request_ids)
        return
    except (RedisRefused, NewerStatus, ValueError):
        if len(request_ids) == 1:
            unreadable += request_ids
            return
    middle = len(request_ids) // 2
    yield from read_apart(statuses, request_ids[:middle], unreadable)
    yield from read_apart(statuses, request_ids[middle:], unreadable)
