"""Which long holes in the offsets are marks of transactions or what they aborted, and no gaps.

Spark's reader gives committed records. A hole in that is looked at once more, batch by batch, while
Kafka still has it: how many transactions ended side by side does not matter. A hole that its
batches do not explain stays one.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from feedback.errors import KafkaUnavailable
from feedback.kafka.engines import engine_of
from feedback.logs import EventLog
from feedback.settings.settings import KafkaSection
from spark_audit.output.location import Location, uri_of
from spark_audit.stage.gaps import offset_gaps
from spark_audit.stage.manifest import Aborted, Manifest

log = EventLog("onceward.audit")


def aborted_of(
    spark: SparkSession, records: Location, settings: KafkaSection, manifest: Manifest
) -> tuple[Aborted, ...]:
    """Return where transactions left no records, in the order of their offsets in each partition.

    A hole that cannot be read is left: a finding that a person can explain is better than silence
    about a loss.

    Args:
        records: the Parquet folder of the staged records.
    """
    staged = spark.read.parquet(uri_of(records))
    found: list[Aborted] = []
    probe = engine_of(settings).silences(settings)
    try:
        for hole in offset_gaps(staged, manifest, manifest.compacted):
            place = (hole.topic, hole.partition)
            try:
                stretches = probe.silent(*place, hole.first_offset, hole.next_offset)
            except KafkaUnavailable as error:
                log.warning("audit.hole_unread", topic=hole.topic, reason=str(error))
            else:
                found += [Aborted(*place, first, after) for first, after in stretches]
    finally:
        probe.close()
    return tuple(found)
