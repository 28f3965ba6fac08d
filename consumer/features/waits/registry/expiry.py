"""Moves expired requests: the letter, the tombstone, and the row, each once.

```
row in onceward_wait ─▶ row in onceward_wait_expiry, with the mark ─▶ letter ─▶ tombstone ─▶ no row
```

If the registry dies right after a step, its successor goes on. After the first step it finds no
letter behind the mark and sends it. After the letter it finds it and does not. After the tombstone
it writes another, which says the same. The successor has taken the fence (`feedback.kafka`)
before it looks. So a letter that it does not find will not come any more, even if its predecessor
stood still for long.

Completions. Before a request is taken out of the table its partition was read to the end, and its
holder has had no heartbeat for the whole length of one: nobody is left to complete it. One case
stays open: a holder that stands still for longer, and wakes up: it may complete the request after
the letter was written. Such a worker is taken for dead by its peers as well, who run such requests
again where that is allowed, so a handler that allows that has to bear it in any case; and its
tombstone ends nothing that ours has not. A tombstone that is read before the letter was sent, as
after a kill, calls it off, and so does a wait record of a worker that has taken the request over. A
record that comes between the last reading and our tombstone is covered by it. That takes a takeover
of an expired request, which no worker may take, or a redrive of the letter within the milliseconds
before.

No status is written. Only a worker writes EXPIRED, with a row of the journal (docs: Statuses),
and an IN_DOUBT without such a row could never be resolved; a client that still waits is told by the
worker that answers the resend after its deadline.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Protocol

from consumer.features.dead_letters.letter import ROOM_BYTES
from consumer.features.waits.registry.letter import (
    EXPIRED,
    expired_letter,
    named_wait_record,
    records_at,
    wait_record_name,
)
from consumer.features.waits.registry.partitions_owned import PartitionsOwned
from consumer.features.waits.registry.registry_counts import RegistryCounts
from consumer.features.waits.registry.wait_rows import ExpiryRow, OwnedPartition, UnfinishedRow
from consumer.features.waits.registry.wait_table import WaitTable
from consumer.features.waits.wait_record import WaitRecord, decode_wait, tombstone
from feedback.errors import InvalidMessage
from feedback.kafka.outgoing import Outgoing, RecordRefused
from feedback.kafka.scan import KafkaScan, OffsetSpan
from feedback.logs import EventLog
from feedback.records.dead_letter_topics import dead_letter_topic

log = EventLog("onceward.waits")

_UNREAD = object()


class LetterTopics(Protocol):
    """Sees to it that a topic exists."""

    def ensure(self, name: str, *, like: str, room_bytes: int = 0) -> None: ...
    def forget(self, name: str) -> None: ...


class ExpiryMover:
    """Moves expired requests. Belongs to one thread.

    Args:
        name: of this registry, for its tombstones.
        scan: reads wait records again.
        letters: reads dead letters, uncommitted ones too; over a connection of its own.
        partitions: this registry's; read to their ends, and held for another lease between steps
            that may take long.
    """

    def __init__(
        self,
        *,
        group: str,
        name: str,
        table: WaitTable,
        scan: KafkaScan,
        letters: KafkaScan,
        topics: LetterTopics,
        partitions: PartitionsOwned,
        tally: RegistryCounts,
    ) -> None:
        self._group = group
        self._name = name
        self._table = table
        self._scan = scan
        self._letters = letters
        self._topics = topics
        self._partitions = partitions
        self._tally = tally

    def move(self, owned: OwnedPartition, rows: Sequence[UnfinishedRow]) -> int:
        """Move due requests; return how many were moved.

        Args:
            rows: due, and without a living holder; in the order of their records.

        Raises:
            NotAvailable: something is away; `go_on` goes on.
        """
        waits = self._waits(owned, rows)
        self._note_lost(owned, [one for one in rows if waits.get(one.offset, _UNREAD) is None])
        due = [one for one in rows if waits.get(one.offset)]
        if not due:
            return 0
        spans = self._fenced(owned) if not owned.fence.is_held else self._spans(owned)
        number = owned.place[1] % len(spans)
        begun = self._table.begin(
            owned.place,
            due,
            position=owned.position,
            letter_partition=number,
            letter_mark=spans[number].end,
        )
        owned.begun = [*owned.begun, *begun]
        self._partitions.renew(owned)
        return self._finish(owned, self._send(owned, begun, waits))

    def go_on(self, owned: OwnedPartition) -> int:
        """Go on with begun moves, our own or another's; return how many were moved.

        Raises:
            NotAvailable: something is away; call it again.
        """
        spans = self._fenced(owned)
        self._partitions.read_to_end(owned)
        owned.begun, owned.refused = self._table.expiries(owned.place), set()
        have_letters = self._have_letters(owned, spans)
        sent = [one for one in owned.begun if one.offset in have_letters]
        unsent = [one for one in owned.begun if one.offset not in have_letters]
        names = [one.request_id for one in unsent]
        again = self._table.waiting_again(owned.place, names)
        off = [one for one in unsent if one.ended_offset is not None or one.request_id in again]
        for one in off:
            log.info("waits.called_off", request_id=one.request_id, topic=owned.source)
        left = [one for one in unsent if one not in off]
        waits = self._waits(owned, left)
        gone = [one for one in left if waits.get(one.offset, _UNREAD) is None]
        for one in gone:
            # Neither ended nor taken over, and its record is not there: retention took it.
            log.error("waits.record_gone", request_id=one.request_id, topic=owned.source)
        self._partitions.renew(owned)
        sent += self._send(owned, [one for one in left if waits.get(one.offset)], waits)
        return self._finish(owned, sent, settled=[*off, *gone])

    # before ---------------------------------------------------------------------------------

    def _waits(
        self, owned: OwnedPartition, rows: Iterable[UnfinishedRow | ExpiryRow]
    ) -> dict[int, WaitRecord | None]:
        """Return the waits of rows, read from their records, by offset; None if it is gone."""
        offsets = sorted(one.offset for one in rows)
        if not offsets:
            return {}
        found = records_at(self._scan, owned.place, offsets)
        waits: dict[int, WaitRecord | None] = {}
        for offset in offsets:
            if offset > found.looked_to:
                break
            record = found.records.get(offset)
            try:
                said = None if record is None else decode_wait(record, group=self._group)
            except InvalidMessage:
                said = None  # another record, in a topic that was cut and written anew
            waits[offset] = said if isinstance(said, WaitRecord) else None
        return waits

    def _note_lost(self, owned: OwnedPartition, rows: Sequence[UnfinishedRow]) -> None:
        """Note the rows whose record is gone, and forget those that were noted before.

        Compaction removes a record only for a later one of its request, which the next reading
        brings; retention removes any.
        """
        again = [one for one in rows if one.offset in owned.lost]
        owned.lost = {one.offset for one in rows}
        for one in again:
            log.error("waits.record_gone", request_id=one.request_id, topic=owned.source)
        if again:
            self._table.forget(owned.place, again, position=owned.position)

    def _fenced(self, owned: OwnedPartition) -> list[OffsetSpan]:
        """Exclude other writers, and return the letters that stand in the topic since then."""
        dlq = self._dlq(owned)
        self._topics.ensure(dlq, like=owned.source, room_bytes=ROOM_BYTES)
        places = list(self._letters.spans([dlq]))
        self._partitions.renew(owned)
        owned.fence.take([*places, owned.place])
        return self._spans(owned)

    def _spans(self, owned: OwnedPartition) -> list[OffsetSpan]:
        spans = self._letters.spans([self._dlq(owned)])
        return [spans[place] for place in sorted(spans)]

    def _have_letters(self, owned: OwnedPartition, spans: Sequence[OffsetSpan]) -> set[int]:
        """Return the offsets of wait records whose letters stand behind their marks."""
        marks: dict[int, int] = {}
        for one in owned.begun:
            at = one.letter_partition
            marks[at] = min(one.letter_mark, marks.get(at, one.letter_mark))
        names = {wait_record_name(owned.place, one.offset): one.offset for one in owned.begun}
        dlq = self._dlq(owned)
        behind = {
            (dlq, at): OffsetSpan(max(mark, spans[at].begin), spans[at].end)
            for at, mark in marks.items()
            if at < len(spans)
        }
        return {
            names[name]
            for page in self._letters.pages(behind)
            for record in page.records
            if (name := named_wait_record(record.headers)) in names
        }

    def _dlq(self, owned: OwnedPartition) -> str:
        return dead_letter_topic(owned.source, self._group)

    # writing --------------------------------------------------------------------------------

    def _send(
        self,
        owned: OwnedPartition,
        begun: Sequence[ExpiryRow],
        waits: Mapping[int, WaitRecord | None],
    ) -> list[ExpiryRow]:
        written: list[ExpiryRow] = []
        left = list(begun)
        for has_key_text in (True, False):
            refused: list[tuple[ExpiryRow, RecordRefused]] = []
            for one, error in self._send_once(owned, left, waits, has_key_text=has_key_text):
                if error is None:
                    written.append(one)
                else:
                    refused.append((one, error))
            left = [one for one, _ in refused]
        for one, error in refused:
            owned.refused.add(one.offset)
            self._tally.refused += 1
            log.error("waits.letter_refused", request_id=one.request_id, reason=str(error))
        return written

    def _send_once(
        self,
        owned: OwnedPartition,
        begun: Sequence[ExpiryRow],
        waits: Mapping[int, WaitRecord | None],
        *,
        has_key_text: bool,
    ) -> Iterator[tuple[ExpiryRow, RecordRefused | None]]:
        dlq = self._dlq(owned)
        ordered = sorted(begun, key=attrgetter("letter_partition", "offset"))
        for number, group in groupby(ordered, key=attrgetter("letter_partition")):
            some = list(group)
            letters = [
                expired_letter(wait, one, owned.place, group=self._group, has_key_text=has_key_text)
                for one in some
                if (wait := waits[one.offset]) is not None
            ]
            yield from zip(some, self._write(owned, dlq, number, letters), strict=True)

    def _finish(
        self,
        owned: OwnedPartition,
        lettered: Sequence[ExpiryRow],
        *,
        settled: Sequence[ExpiryRow] = (),
    ) -> int:
        """Write tombstones, and delete finished rows; return how many have a letter."""
        if lettered:
            self._partitions.read_to_end(owned)
            names = [one.request_id for one in lettered]
            again = self._table.waiting_again(owned.place, names)
            self._partitions.renew(owned)
            topic, number = owned.place
            tombstones = [
                tombstone(
                    one.request_id,
                    topic=owned.source,
                    partition=number,
                    group=self._group,
                    generation=one.generation,
                    worker=self._name,
                    status=EXPIRED,
                )
                for one in lettered
                if one.request_id not in again
            ]
            self._write(owned, topic, number, tombstones)
        done = [one.request_id for one in (*lettered, *settled)]
        self._table.finish(owned.place, done, position=owned.position)
        owned.begun = [one for one in owned.begun if one.request_id not in set(done)]
        return len(lettered)

    def _write(
        self, owned: OwnedPartition, topic: str, partition: int, records: Sequence[Outgoing]
    ) -> list[RecordRefused | None]:
        return owned.fence.write(
            topic, partition, records, before_each=lambda: self._partitions.require_lease(owned)
        )
