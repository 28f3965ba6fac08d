"""Which day judges a place: where a row, a run or a dead letter says that its request lies.

A record is the day's by its offset and its time, as the staging has found (`chain_columns`). All
else names a place. It is the day's where the day judges that place and no record of its id was
read; or where it tells of an earlier day's request a fact that this day could not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_audit.spark import frame_of
from spark_audit.stage.chain import OffsetRange
from spark_audit.stage.manifest import Manifest, TopicKind

_RANGES = (
    "topic string, partition int, start long, end long, log_end long, day_first long, "
    "own array<struct<first:long,after:long>>, earlier array<struct<first:long,after:long>>"
)
_MARKS = "topic string, partition int, forgotten_to long, forgotten_deadline long"


def ranges_frame(spark: SparkSession, manifest: Manifest) -> DataFrame:
    """Return the offsets that were read of each partition of requests, those that the day judges,
    and those that days before it have reached."""
    ends = {(one.topic, one.partition): one.offset for one in manifest.log_ends}
    firsts = {(one.topic, one.partition): one.first for one in manifest.links}
    return frame_of(
        spark,
        [
            (
                *(one.topic, one.partition, one.start, one.end),
                ends.get((one.topic, one.partition)),
                firsts.get((one.topic, one.partition)),
                _stretches(manifest.stretches(one.topic, one.partition)),
                _stretches(_reached_before(manifest, one.topic, one.partition)),
            )
            for one in manifest.partitions
            if one.kind in (TopicKind.REQUEST, TopicKind.RETRY)
        ],
        _RANGES,
    )


def marks_frame(spark: SparkSession, manifest: Manifest) -> DataFrame:
    """Return how far the partitions were pruned."""
    return frame_of(spark, _marks(manifest), _MARKS)


def with_places(frame: DataFrame, ranges: DataFrame, prefix: str = "") -> DataFrame:
    """Return the frame with `is_staged`: whether the place that a row names was read, or lies
    behind the log's end; with `is_own`: whether the day judges that place; with `is_beyond`:
    whether it lies behind the log's end; with `is_earlier`: whether a day before has judged it; and
    with `is_reached`: whether one has, or has left its record to this day.

    The first two are null when the topic is none of the group's, or has no such partition.
    """
    topic, partition, offset = (f"{prefix}{name}" for name in ("topic", "partition", "offset"))
    known = ranges.withColumnsRenamed({"topic": topic, "partition": partition})
    is_read = (F.col(offset) >= F.col("start")) & (F.col(offset) < F.col("end"))
    is_beyond = F.coalesce(F.col(offset) >= F.col("log_end"), F.lit(False))
    is_staged = is_read | is_beyond
    joined = frame.join(F.broadcast(known), [topic, partition], "left")

    def is_in(stretches: str) -> Column:
        at = F.col(offset)
        return F.exists(stretches, lambda one: (at >= one["first"]) & (at < one["after"]))

    columns = {
        "is_staged": is_staged,
        "is_own": is_in("own"),
        "is_beyond": is_beyond,
        "is_earlier": F.coalesce(F.col(offset) < F.col("day_first"), F.lit(False)),
        "is_reached": F.coalesce(is_in("earlier"), F.lit(False)),
    }
    drop = ("start", "end", "log_end", "day_first", "own", "earlier")
    return joined.withColumns(columns).drop(*drop)


def is_placed(at: Column, manifest: Manifest) -> Column:
    """Return whether something of the journal is the day's, were no record of its id read.

    By the place that it names, if it was not claimed before the last run: a topic that was made
    anew gives its offsets again. Where Kafka has no such place yet, by its claim alone.
    """
    since_ms = manifest.before_ms or manifest.since_ms
    is_new = (at >= since_ms) & (at < manifest.reached_at_ms)
    is_not_older = at >= since_ms - manifest.grace_ms
    is_own = F.when(~F.col("is_beyond"), F.col("is_own") & is_not_older)
    return F.coalesce(is_own, is_new, F.lit(False))


def has_run_again(manifest: Manifest) -> Column:
    """Return whether a row of an earlier day was claimed anew since the journal was read last."""
    since_ms, until_ms = manifest.reran_since_ms, manifest.reran_to_ms
    if not since_ms:
        return F.lit(False)
    is_new = (F.col("claimed_at") >= since_ms) & (F.col("claimed_at") < until_ms)
    return F.coalesce(F.col("is_reached") & (F.col("generation") > 1) & is_new, F.lit(False))


def is_late_letter(manifest: Manifest) -> Column:
    """Return whether a dead letter of the day is about an earlier day's request: it had not arrived
    when that day was judged."""
    is_new = F.col("arrived_by_ms") > manifest.before_ms
    return F.col("in_window") & F.col("is_reached") & is_new


def may_be_forgotten(earliest: Column) -> Column:
    """Return whether pruning may have deleted the row of a record.

    A record that names no deadline had one by the clock of its reader: below the mark, any is taken
    for possible.

    Args:
        earliest: a time (epoch ms) before the deadline of a record that names none.
    """
    is_below = F.col("deadline_at").isNull() & (F.col("offset") < F.col("forgotten_to"))
    is_old = F.coalesce("deadline_at", earliest) <= F.col("forgotten_deadline")
    return F.coalesce(is_below | is_old, F.lit(False))


def _reached_before(manifest: Manifest, topic: str, partition: int) -> list[OffsetRange]:
    """Return the offsets that earlier days have reached.

    The day begins at the first record that was left to it. Behind that lie records that the day
    before has judged.
    """
    found = []
    for link in manifest.links:
        if (link.topic, link.partition) == (topic, partition):
            found.append((0, link.first))
            earlier = (one for one in link.reaches if one.date < manifest.date)
            found += [(one.first, one.after) for one in earlier]
    return found


def _stretches(found: Iterable[OffsetRange]) -> list[dict[str, int]]:
    return [{"first": first, "after": after} for first, after in found]


def _marks(manifest: Manifest) -> Iterator[tuple[str, int, int, int]]:
    """Yield the offset up to which each partition was pruned, and the latest deadline of its
    topic's pruned rows.

    The mark of a partition is that of the record that ran. A copy of it may lie behind that mark,
    or in another partition; it has the same deadline.
    """
    deadlines: dict[str, int] = {}
    for mark in manifest.forgotten:
        deadlines[mark.topic] = max(mark.deadline_at, deadlines.get(mark.topic, 0))
    next_offsets = {(one.topic, one.partition): one.next_offset for one in manifest.forgotten}
    for one in manifest.partitions:
        if one.topic in deadlines:
            place = (one.topic, one.partition)
            yield *place, next_offsets.get(place, 0), deadlines[one.topic]
