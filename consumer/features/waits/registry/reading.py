"""Wait records read again by their offsets: the table holds no payload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from consumer.features.waits.registry.facts import Place
from feedback.kafka.scan import KafkaScan, OffsetSpan
from feedback.records.envelope import Record

# Records between two that are wanted: so many are read over sooner than another place is sought.
NEAR = 2000
# The most values in memory at the same time.
MOST_BYTES = 8 * 2**20


class FoundRecords(NamedTuple):
    """The records found at some offsets.

    Args:
        records: by their offset.
        looked_to: those behind it were not looked for; one before it that was not found was taken
            by compaction, or by retention.
    """

    records: dict[int, Record]
    looked_to: int


def records_at(scan: KafkaScan, place: Place, offsets: Sequence[int]) -> FoundRecords:
    """Return the records that stand at these offsets, as many as fit into `MOST_BYTES`.

    Args:
        offsets: in their order.

    Raises:
        KafkaUnavailable: Kafka did not answer.
    """
    found: dict[int, Record] = {}
    size_bytes, looked_to = 0, -1
    for run in _runs(offsets):
        wanted = set(run)
        for page in scan.pages({place: OffsetSpan(run[0], run[-1] + 1)}):
            for record in page.records:
                if record.offset in wanted:
                    found[record.offset] = record
                    size_bytes += len(record.value or b"")
            if size_bytes >= MOST_BYTES:
                return FoundRecords(found, page.positions[place] - 1)
        looked_to = run[-1]
    return FoundRecords(found, looked_to)


def _runs(offsets: Sequence[int]) -> Iterator[list[int]]:
    """Yield offsets that lie so near that one reading brings them all."""
    run: list[int] = []
    for offset in offsets:
        if run and offset - run[-1] > NEAR:
            yield run
            run = []
        run.append(offset)
    if run:
        yield run
