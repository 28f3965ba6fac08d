"""The changes of the table by records of a wait topic. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from consumer.features.waits.record import EXPIRES, Tombstone, decode, source_topic
from consumer.features.waits.registry.facts import NOBODY, Unfinished
from consumer.journal.records import cleaned
from feedback.errors import InvalidMessage
from feedback.records.envelope import Record
from feedback.records.failure_headers import ORIGINAL_TOPIC

# A worker's id is far shorter; the writer of a longer one is no worker of ours.
HOLDER_LIMIT = 256


@dataclass(slots=True)
class Changes:
    """The sum of some records of one partition, each request once.

    Attributes:
        unfinished: the latest record of each request that has not ended.
        ended: the offset of the tombstone of each that has.
        malformed: records that say nothing, with the reason.
        latest_ms: the latest time of a record, in epoch ms by its writer's clock; -1 without one.
    """

    unfinished: list[Unfinished] = field(default_factory=list)
    ended: dict[str, int] = field(default_factory=dict)
    malformed: list[tuple[Record, str]] = field(default_factory=list)
    latest_ms: int = -1


def changes_of(records: Iterable[Record], *, group: str) -> Changes:
    """Return the changes by records, given in the order of their partition."""
    changes = Changes()
    unfinished: dict[str, Unfinished] = {}
    for record in records:
        changes.latest_ms = max(changes.latest_ms, record.timestamp_ms)
        try:
            said = decode(record, group=group)
            _require_own(record, group)
        except InvalidMessage as error:
            changes.malformed.append((record, error.reason))
            continue
        if isinstance(said, Tombstone):
            unfinished.pop(said.request_id, None)
            changes.ended[said.request_id] = record.offset
            continue
        unfinished[said.request_id] = Unfinished(
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
