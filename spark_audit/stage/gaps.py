"""Gaps: records that Kafka no longer had, and offsets that no record explains.

A retention gap is proved by two numbers: somebody knew of offsets up to one, and Kafka now begins
at a later one. Known are the group's committed offset, behind which nothing was delivered yet, and
where the chain of runs stands, behind which no audit has looked.

An offset gap is a hole in the offsets that were staged. Holes are normal: every transaction ends
with a marker that has an offset and is no record, and several may end one after the other. So only
a hole of more than `MARKERS` is looked at: when a day is staged, Kafka is asked which of it are
markers or were aborted (`spark_audit.stage.snapshot`), and all other offsets are told. A compacted
topic has holes of any length too: none is told.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_audit.findings import Finding
from spark_audit.stage.chain import PartitionName
from spark_audit.stage.manifest import AbortedOffsets, Manifest, TopicKind

# So many producers may end their transactions side by side in one partition.
MARKERS = 16
_WORD_BITS = 6
_WORD = 1 << _WORD_BITS
_FULL = -1

# The first offset, and the one after the last.
_Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets of a partition that nobody saw.

    Args:
        records: how many are missing; no more than so many were records.
    """

    finding: Finding
    topic: str
    partition: int
    first_offset: int
    next_offset: int
    records: int


def find_gaps(
    records: DataFrame,
    manifest: Manifest,
    *,
    compacted: Collection[str] = (),
) -> list[Gap]:
    """Return all gaps of a snapshot, in the order of finding, topic, partition and offset.

    Args:
        compacted: topics that forget records by key.
    """
    gaps = [*retention_gaps(manifest), *offset_gaps(records, manifest, compacted)]
    return sorted(gaps, key=lambda one: (one.finding, one.topic, one.partition, one.first_offset))


def retention_gaps(manifest: Manifest) -> Iterator[Gap]:
    """Yield the offsets that were deleted before they were delivered, or before any audit had
    judged them."""
    judged = {(one.topic, one.partition): one.first for one in manifest.links}
    for one in manifest.partitions:
        known = [judged.get((one.topic, one.partition))]
        if one.kind in (TopicKind.REQUEST, TopicKind.RETRY):
            known.append(one.committed)
        missed = [offset for offset in known if offset is not None and offset < one.begin]
        if missed:
            place = (one.topic, one.partition)
            yield _gap(Finding.RETENTION_GAP, place, min(missed), one.begin)


def offset_gaps(
    records: DataFrame, manifest: Manifest, compacted: Collection[str] = ()
) -> Iterator[Gap]:
    """Yield holes in the staged offsets that are longer than markers of transactions explain."""
    ranges = {
        (one.topic, one.partition): (one.start, one.end)
        for one in manifest.partitions
        if one.topic not in compacted
    }
    ranges = _with_holes(records, ranges)
    if not ranges:
        return
    topics = sorted({topic for topic, _ in ranges})
    records = records.where(F.col("topic").isin(topics))
    bit = F.expr(f"shiftleft(1L, CAST(offset % {_WORD} AS INT))")
    words = (
        records.groupBy("topic", "partition", F.shiftright("offset", _WORD_BITS).alias("number"))
        .agg(F.bit_or(bit).alias("bits"))
        .orderBy("topic", "partition", "number")
    )
    present = (
        ((row["topic"], row["partition"]), row["number"], row["bits"])
        for row in words.toLocalIterator()
    )
    aborted = _by_place(manifest)
    for place, first, after in holes(present, ranges):
        if after - first > MARKERS:
            for begin, end in _unexplained(first, after, aborted.get(place, ())):
                if begin < end:
                    yield _gap(Finding.OFFSET_GAP, place, begin, end)


def _by_place(manifest: Manifest) -> dict[PartitionName, list[AbortedOffsets]]:
    found: dict[PartitionName, list[AbortedOffsets]] = defaultdict(list)
    for one in sorted(manifest.aborted, key=lambda one: one.first):
        found[one.topic, one.partition].append(one)
    return found


def _unexplained(
    first: int, after: int, aborted: Sequence[AbortedOffsets]
) -> Iterator[tuple[int, int]]:
    """Yield the parts of a hole that transactions do not explain.

    Args:
        aborted: those of its partition, in the order of their offsets.
    """
    number = bisect_right(aborted, first, key=lambda one: one.after)
    while number < len(aborted) and aborted[number].first < after:
        yield first, aborted[number].first
        first = aborted[number].after
        number += 1
    yield first, after


def _with_holes(
    records: DataFrame, ranges: Mapping[PartitionName, _Range]
) -> dict[PartitionName, _Range]:
    """Return the ranges of which some offsets are missing: a sum is cheaper than a look at each."""
    sums = records.groupBy("topic", "partition").agg(F.count("*"), F.try_sum("offset"))
    found = {(topic, number): (count, total) for topic, number, count, total in sums.collect()}
    return {
        place: (start, end)
        for place, (start, end) in ranges.items()
        if start < end and found.get(place) != (end - start, (end - start) * (start + end - 1) // 2)
    }


def holes(
    words: Iterable[tuple[PartitionName, int, int]], ranges: Mapping[PartitionName, tuple[int, int]]
) -> Iterator[tuple[PartitionName, int, int]]:
    """Yield (place, first missing offset, one after the last) of every hole in the ranges.

    Args:
        words: (place, number, bits), of each place in the order of their numbers: bit i of word n
            says that offset 64 n + i is there, as a signed number.
        ranges: by place, its first offset and the one after its last.

    >>> list(holes([(("pay", 0), 0, 0b1011)], {("pay", 0): (0, 6)}))
    [(('pay', 0), 2, 3), (('pay', 0), 4, 6)]
    """
    expected = {place: start for place, (start, _) in ranges.items()}
    for place, number, bits in words:
        if place not in ranges:
            continue
        end = ranges[place][1]
        for first, after in _stretches(number * _WORD, bits):
            if expected[place] < min(first, end):
                yield place, expected[place], min(first, end)
            expected[place] = max(expected[place], after)
    for place, (_, end) in ranges.items():
        if expected[place] < end:
            yield place, expected[place], end


def _stretches(base: int, bits: int) -> Iterator[tuple[int, int]]:
    """Yield (first, one after the last) of each stretch of bits that are set."""
    if bits == _FULL:
        yield base, base + _WORD
        return
    left = bits & ((1 << _WORD) - 1)
    while left:
        low = (left & -left).bit_length() - 1
        ones = left >> low
        length = (~ones & (ones + 1)).bit_length() - 1
        yield base + low, base + low + length
        left = ones >> length << (low + length)


def _gap(finding: Finding, place: PartitionName, first: int, after: int) -> Gap:
    return Gap(finding, *place, first_offset=first, next_offset=after, records=after - first)
