"""The carry-over: the requests that one run could not judge to the end, for the next run.

A request that was not delivered, or has time left, is judged by its records, and so is a failure
that was sent again: the next run reads Kafka from where they are. A claim without an end is judged
by its row, which is found by its id wherever its record lies, so a claim that nobody ends does not
make every later run read all the days since. So is a failure whose dead letter may still come.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from feedback.errors import NotAvailable
from spark_audit.output.location import Location
from spark_audit.output.outputs import write_text
from spark_audit.spark import ids_frame
from spark_audit.stage.chain import PartitionName
from spark_audit.stage.manifest import Manifest, TopicKind


def write_carried(path: Location, carried: CarryOver) -> None:
    """Write a new file."""
    read_from = [[*place, offset] for place, offset in sorted(carried.read_from.items())]
    text = json.dumps({"version": 1, "ids": sorted(carried.ids), "read_from": read_from})
    write_text(path, text + "\n")


def read_carried(paths: Iterable[Location]) -> tuple[tuple[str, ...], Mapping[PartitionName, int]]:
    """Return the ids, and from which offset their partitions are read; nothing without a file.

    Raises:
        NotAvailable: it cannot be read, so that requests would be forgotten.
    """
    ids, read_from = dict[str, None](), dict[PartitionName, int]()
    for path in paths:
        some, places = _read(path)
        ids.update(dict.fromkeys(some))
        for place, offset in places.items():
            read_from[place] = min(offset, read_from.get(place, offset))
    return tuple(ids), read_from


def _read(path: Location) -> tuple[tuple[str, ...], Mapping[PartitionName, int]]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        read_from = {(topic, number): offset for topic, number, offset in found["read_from"]}
        return tuple(found["ids"]), read_from
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NotAvailable(
            f"{path} cannot be read ({type(error).__name__}): judge that day again"
        ) from error


# Their ids go into the manifest and into the journal's query: far more than a group with live
# workers leaves open within a deadline.
LIMIT = 100_000
_OPEN_CLAIMS = ("CLAIMED", "RETRYING")


@dataclass(frozen=True, slots=True)
class CarryOver:
    """The open requests with which the next run begins.

    Args:
        read_from: by topic and partition, the offset from which their records are needed.
        is_cut: there were more than `LIMIT`; the oldest are here, and the day is not judged whole.
    """

    ids: tuple[str, ...]
    read_from: Mapping[tuple[str, int], int]
    is_cut: bool


def carried(judged: DataFrame) -> DataFrame:
    """Return the requests to be looked at again, the oldest first, at most one more than `LIMIT`.

    One row each: request_id, topic, partition, offset, first_at, and whether its records are
    needed.
    """
    has_claim = F.coalesce(F.col("state").isin(*_OPEN_CLAIMS), F.lit(False))
    needs_records = F.col("is_pending") | (F.col("is_in_flight") & ~has_claim)
    needs_records |= F.col("awaits_reopening")
    return (
        judged.where(needs_records | has_claim | F.col("awaits_letter"))
        .select(
            *("request_id", "topic", "partition", "offset", "first_at"),
            needs_records.alias("needs_records"),
        )
        .orderBy("first_at", "request_id")
        .limit(LIMIT + 1)
    )


def gone(judged: DataFrame, manifest: Manifest) -> int:
    """Return how many requests that an earlier run left open cannot be judged: nothing of them is
    left, neither a record nor a row."""
    if not manifest.carried:
        return 0
    carried = ids_frame(judged.sparkSession, manifest.carried)
    return carried.join(judged, "request_id", "left_anti").count()


def carry_over(carried: Iterable[Row], manifest: Manifest) -> CarryOver:
    """Return the open requests with which the next run begins.

    A request may have records on several partitions, of which `carried` knows the first; those of
    the others that matter are not delivered yet, so they lie behind the committed offset.

    Args:
        carried: the rows of `carried`, in their order.
    """
    rows = list(carried)
    read_from: dict[tuple[str, int], int] = {}
    for row in rows[:LIMIT]:
        place = (row["topic"], row["partition"])
        if row["needs_records"]:
            read_from[place] = min(row["offset"], read_from.get(place, row["offset"]))
    for one in manifest.partitions:
        place = (one.topic, one.partition)
        # Of a request's retries `carried` knows no place: unread, all of them are needed.
        delivered = one.start if one.kind == TopicKind.RETRY else one.end
        if one.committed is not None:
            delivered = one.committed
        if one.kind in (TopicKind.REQUEST, TopicKind.RETRY) and delivered < one.end:
            read_from[place] = min(delivered, read_from.get(place, delivered))
    return CarryOver(
        ids=tuple(row["request_id"] for row in rows[:LIMIT]),
        read_from=read_from,
        is_cut=len(rows) > LIMIT,
    )
