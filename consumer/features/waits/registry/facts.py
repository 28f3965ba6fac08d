"""The registry's knowledge of requests: rows of its tables, as values."""

from __future__ import annotations

from typing import NamedTuple

# A partition of a wait topic.
Place = tuple[str, int]
NOBODY = ""


class Unfinished(NamedTuple):
    """A request that has not ended: its latest wait record.

    Args:
        offset: of that record.
        expires_at: epoch ms.
        holder: the worker that has it; `NOBODY` where it was given back or has no holder.
        written_at: epoch ms, by the writer's clock.
    """

    request_id: str
    offset: int
    expires_at: int
    holder: str
    generation: int
    written_at: int


class Expiry(NamedTuple):
    """A request on its way to the dead letters.

    Args:
        offset: of the wait record that expired.
        begun_at: epoch ms, by the database's clock.
        letter_partition: where its letter goes.
        letter_mark: its letter is not before this offset.
        ended_offset: of a tombstone that came after it had begun; None when there was none.
    """

    request_id: str
    offset: int
    expires_at: int
    holder: str
    generation: int
    begun_at: int
    letter_partition: int
    letter_mark: int
    ended_offset: int | None = None


class Opened(NamedTuple):
    """A partition as it was taken over.

    Args:
        position: the next offset to be read.
        expiries: requests on their way to the dead letters, or so when the last owner ended.
        forgotten: rows of a topic of the same name that was deleted since.
    """

    position: int
    expiries: tuple[Expiry, ...]
    forgotten: int = 0


class PartitionContent(NamedTuple):
    """The content of a partition now.

    Args:
        waiting: how many requests have not ended.
        oldest_ms: how long the oldest of them has waited; 0 where there is none.
    """

    waiting: int
    oldest_ms: int
