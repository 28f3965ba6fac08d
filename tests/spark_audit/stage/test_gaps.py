"""Gaps: what retention took, and holes in the offsets."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from pyspark.sql import SparkSession

from spark_audit.findings import Finding
from spark_audit.stage.chain import ChainLink
from spark_audit.stage.gaps import (
    MARKERS,
    Gap,
    _unexplained,
    find_gaps,
    holes,
    retention_gaps,
)
from spark_audit.stage.manifest import AbortedOffsets, FrozenPartition, Manifest
from tests.spark_audit.judge.day import DLQ_TOPIC, FIRST_OFFSET, RETRY_TOPIC, TOPIC, Day
from tests.spark_audit.judge.planted import plant


def manifest_of(*partitions: FrozenPartition) -> Manifest:
    return replace(Day().manifest, partitions=partitions, links=())


def request_partition(**facts: int | None) -> FrozenPartition:
    given = {"begin": 100, "start": 100, "end": 200, "committed": 200} | facts
    return FrozenPartition("request", TOPIC, 0, **given)  # type: ignore[arg-type]


def test_what_was_deleted_before_it_was_delivered_is_a_retention_gap() -> None:
    manifest = manifest_of(request_partition(committed=40))
    assert list(retention_gaps(manifest)) == [Gap(Finding.RETENTION_GAP, TOPIC, 0, 40, 100, 60)]


def judged_up_to(offset: int) -> ChainLink:
    return ChainLink(TOPIC, 0, "", first=offset, reaches=())


def test_what_was_deleted_before_an_audit_saw_it_is_a_retention_gap() -> None:
    manifest = replace(manifest_of(request_partition(committed=150)), links=(judged_up_to(70),))
    assert list(retention_gaps(manifest)) == [Gap(Finding.RETENTION_GAP, TOPIC, 0, 70, 100, 30)]


def test_a_gap_begins_where_the_first_of_both_stopped() -> None:
    manifest = replace(manifest_of(request_partition(committed=90)), links=(judged_up_to(70),))
    (gap,) = retention_gaps(manifest)
    assert gap.first_offset == 70


def test_what_was_delivered_and_audited_before_it_was_deleted_is_no_gap() -> None:
    manifest = replace(manifest_of(request_partition(committed=100)), links=(judged_up_to(100),))
    assert not list(retention_gaps(manifest))


def test_a_group_that_has_committed_nothing_proves_no_gap() -> None:
    assert not list(retention_gaps(manifest_of(request_partition(committed=None))))


def test_nobody_has_to_have_consumed_dead_letters() -> None:
    letters = FrozenPartition("dlq", DLQ_TOPIC, 0, begin=100, start=100, end=200, committed=0)
    assert not list(retention_gaps(manifest_of(letters)))


def day_with_a_hole(length: int) -> Day:
    day = Day()
    for number in range(150):
        day.send(f"r{number}")
    day.send("after", offset=FIRST_OFFSET + 150 + length)
    day.send("elsewhere", partition=1)
    return day


def gaps_of(spark: SparkSession, day: Day, compacted: tuple[str, ...] = ()) -> list[Gap]:
    records, _, _ = day.frames(spark)
    return find_gaps(records, day.manifest, compacted=compacted)


def test_a_hole_that_no_markers_explain_is_an_offset_gap(spark: SparkSession) -> None:
    assert gaps_of(spark, day_with_a_hole(MARKERS + 1)) == [
        Gap(
            Finding.OFFSET_GAP,
            TOPIC,
            0,
            FIRST_OFFSET + 150,
            FIRST_OFFSET + 150 + MARKERS + 1,
            MARKERS + 1,
        )
    ]


def test_markers_of_transactions_are_no_gap(spark: SparkSession) -> None:
    assert gaps_of(spark, day_with_a_hole(1)) == []
    assert gaps_of(spark, day_with_a_hole(MARKERS)) == []


def test_a_compacted_topic_is_not_accused(spark: SparkSession) -> None:
    assert gaps_of(spark, day_with_a_hole(10_000), (TOPIC,)) == []


def test_a_topic_of_which_nothing_was_read_is_one_gap(spark: SparkSession) -> None:
    day = Day()
    manifest = manifest_of(request_partition())
    records, _, _ = day.frames(spark)
    assert find_gaps(records, manifest) == [Gap(Finding.OFFSET_GAP, TOPIC, 0, 100, 200, 100)]


def test_gaps_come_by_finding_and_place(spark: SparkSession) -> None:
    records, _, _ = Day().frames(spark)
    retry = FrozenPartition("retry", RETRY_TOPIC, 0, begin=50, start=50, end=50, committed=10)
    first = replace(request_partition(), partition=1)
    found = find_gaps(records, manifest_of(retry, first, request_partition()))
    assert [(one.finding, one.topic, one.partition) for one in found] == [
        (Finding.OFFSET_GAP, TOPIC, 0),
        (Finding.OFFSET_GAP, TOPIC, 1),
        (Finding.RETENTION_GAP, RETRY_TOPIC, 0),
    ]


def test_a_day_with_single_records_missing_has_no_gap(spark: SparkSession) -> None:
    assert gaps_of(spark, replace(plant().day, carried=())) == []


def test_holes_are_those_between_any_offsets() -> None:
    random = Random(3)
    for _ in range(300):
        start = random.choice((0, 63, 64, 2**31 - 5))
        end = start + random.randrange(300)
        offsets = {at for at in range(start, end) if random.random() < random.choice((0.5, 0.99))}
        words: dict[int, int] = {}
        for at in offsets:
            words[at >> 6] = words.get(at >> 6, 0) | 1 << (at & 63)
        # As Spark has them: the highest bit is the sign.
        signed = [
            (("t", 0), number, bits - (1 << 64) if bits >> 63 else bits)
            for number, bits in sorted(words.items())
        ]
        found = holes(signed, {("t", 0): (start, end)})
        missing = {at for _, first, after in found for at in range(first, after)}
        assert missing == set(range(start, end)) - offsets


class Looked(list[AbortedOffsets]):
    """Counts how often it was looked at."""

    looks = 0

    def __getitem__(self, at: Any) -> Any:
        self.looks += 1
        return super().__getitem__(at)


def test_of_many_aborted_transactions_only_those_of_a_hole_are_looked_at() -> None:
    # Ten offsets each, of which the last three are records.
    aborted = Looked(AbortedOffsets(TOPIC, 0, 10 * one, 10 * one + 7) for one in range(100_000))
    hole = (500_007, 500_040)
    assert list(_unexplained(*hole, aborted)) == [
        (500_007, 500_010),
        (500_017, 500_020),
        (500_027, 500_030),
        (500_037, 500_040),
    ]
    assert list(_unexplained(500_003, 500_005, aborted)) == [(500_003, 500_000), (500_007, 500_005)]
    assert list(_unexplained(2_000_000, 2_000_009, aborted)) == [(2_000_000, 2_000_009)]
    assert aborted.looks < 100
