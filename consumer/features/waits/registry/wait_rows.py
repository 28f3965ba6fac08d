"""The registry's knowledge of requests: rows of its tables, as values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from consumer.features.waits.wait_record import EXPIRES, Tombstone, decode_wait, source_topic
from consumer.journal.records import cleaned
from feedback.errors import InvalidMessage
from feedback.kafka.fencing import Fence
from feedback.kafka.values import Partition
from feedback.records.envelope import Record
from feedback.records.failure_headers import ORIGINAL_TOPIC

# A worker's id is far shorter; the writer of a longer one is no worker of ours.
HOLDER_LIMIT = 256


@dataclass(slots=True)
class WaitChanges:
    """The sum of some records of one partition, each request once.

    Attributes:
        unfinished: the latest record of each request that has not ended.
        ended: the offset of the tombstone of each that has.
        malformed: records that say nothing, with the reason.
        latest_ms: the latest time of a record, in epoch ms by its writer's clock; -1 without one.
    """

    unfinished: list[UnfinishedRow] = field(default_factory=list)
    ended: dict[str, int] = field(default_factory=dict)
    malformed: list[tuple[Record, str]] = field(default_factory=list)
    latest_ms: int = -1


def changes_of(records: Iterable[Record], *, group: str) -> WaitChanges:
    """Return the changes by records, given in the order of their partition."""
    changes = WaitChanges()
    unfinished: dict[str, UnfinishedRow] = {}
    for record in records:
        changes.latest_ms = max(changes.latest_ms, record.timestamp_ms)
        try:
            said = decode_wait(record, group=group)
            _require_own(record, group)
        except InvalidMessage as error:
            changes.malformed.append((record, error.reason))
            continue
        if isinstance(said, Tombstone):
            unfinished.pop(said.request_id, None)
            changes.ended[said.request_id] = record.offset
            continue
        unfinished[said.request_id] = UnfinishedRow(
            request_id=said.request_id,
            offset=record.offset,
            expires_at=said.expires_at,
            holder=cleaned(said.holder or NOBODY)[:HOLDER_LIMIT],
            generation=said.generation,
            written_at=max(0, record.timestamp_ms),
        )
    changes.unfinished = list(unfinished.values())
    return changes


def _require_own(record: Record, group: str) -> None:
    """Raise for another group's record: `a.b.c.wait` is `c`'s on `a.b`, and `b.c`'s on `a`."""
    names = [name for name, _ in record.headers]
    if EXPIRES not in names:
        return
    ours_at = len(names) - 1 - names[::-1].index(EXPIRES)
    said = dict(record.headers[ours_at:]).get(ORIGINAL_TOPIC)
    expected = source_topic(record.topic, group)
    if said is not None and expected is not None and said != expected.encode():
        raise InvalidMessage("it is of another topic, and so of another group")


@dataclass(slots=True)
class OwnedPartition:
    """Its rows; thrown away, and read again, when in doubt.

    Attributes:
        source: the topic whose requests wait there.
        position: how far the table has read it.
        lease_end_s: until when it certainly stays ours, on the monotonic clock.
        fence: the right to write its letters and tombstones.
        refused: offsets of those whose letter Kafka does not take as it is.
        lost: offsets of due records that Kafka does not have any more.
        rests_until_s: nothing is moved before, on the monotonic clock.
    """

    place: Partition
    source: str
    position: int
    lease_end_s: float
    fence: Fence
    begun: list[ExpiryRow]
    refused: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)
    rests_until_s: float = 0.0

    @property
    def unfinished(self) -> bool:
        """Whether something was begun that has to be gone on with."""
        return any(one.offset not in self.refused for one in self.begun)


NOBODY = ""


class UnfinishedRow(NamedTuple):
    """A request that has not ended: its latest wait record.

    Args:
        holder: the worker that has it; `NOBODY` where it was given back or has no holder.
    """

    request_id: str
    offset: int
    expires_at: int
    holder: str
    generation: int
    written_at: int


class ExpiryRow(NamedTuple):
    """A request on its way to the dead letters.

    Args:
        offset: of the wait record that expired.
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


class OpenedPartition(NamedTuple):
    """A partition as it was taken over.

    Args:
        position: the next offset to be read.
        expiries: requests on their way to the dead letters, or so when the last owner ended.
        forgotten: rows of a topic of the same name that was deleted since.
    """

    position: int
    expiries: tuple[ExpiryRow, ...]
    forgotten: int = 0


class PartitionContent(NamedTuple):
    """The content of a partition now.

    Args:
        oldest_ms: how long the oldest of them has waited; 0 where there is none.
    """

    waiting: int
    oldest_ms: int
