"""Telling statuses of which one may be at fault: the others are told all the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from feedback.errors import RedisRefused
from feedback.statuses import Refused, StatusWrite
from feedback.store import StatusStore

BATCH = 256
# Far below what a server takes in one command, and short enough for others to get a word in.
BATCH_BYTES = 4_000_000


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
    """Tell a batch as `StatusStore.write` does; an error for each write that Redis refuses.

    What is refused as a whole is halved until the offender stands alone: about 2 log2(n) calls.

    Raises:
        RedisUnavailable: nothing is known of what was written; repeating is harmless.
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
