"""A day's snapshot: written beside its place and put there whole, so that half of one is none.

Spark's reader gives committed records. A hole in them is looked at once more, batch by batch, while
Kafka still has it: how many transactions ended side by side does not matter. A hole that its
batches do not explain stays one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic

from pyspark.sql import DataFrame, SparkSession

from feedback.errors import KafkaUnavailable, NotAvailable
from feedback.kafka.engines import engine_of
from feedback.logs import EventLog
from feedback.settings.settings import KafkaSection, Settings
from spark_audit.output.location import read_written
from spark_audit.output.outputs import P, put_text, recover, replacing, settled
from spark_audit.output.paths import P_co
from spark_audit.spark import explained
from spark_audit.stage.chain_columns import counted_links
from spark_audit.stage.freeze import log_ends
from spark_audit.stage.gaps import offset_gaps
from spark_audit.stage.manifest import AbortedOffsets, Manifest
from spark_audit.stage.stage_journal import stage_journal
from spark_audit.stage.stage_records import SCHEMA, stage_records

log = EventLog("onceward.audit")


def aborted_of(
    records: DataFrame, settings: KafkaSection, manifest: Manifest
) -> tuple[AbortedOffsets, ...]:
    """Return where transactions left no records, in the order of their offsets in each partition.

    A hole that cannot be read is left: a finding that a person can explain is better than silence
    about a loss.
    """
    found: list[AbortedOffsets] = []
    probe = engine_of(settings).silences(settings)
    try:
        for hole in offset_gaps(records, manifest, manifest.compacted):
            place = (hole.topic, hole.partition)
            try:
                stretches = probe.silent(*place, hole.first_offset, hole.next_offset)
            except KafkaUnavailable as error:
                log.warning("audit.hole_unread", topic=hole.topic, reason=str(error))
            else:
                found += [AbortedOffsets(*place, first, after) for first, after in stretches]
    finally:
        probe.close()
    return tuple(found)


_COMPLETE = "_COMPLETE"
_PRUNED = "_PRUNED"


@dataclass(frozen=True, slots=True)
class Snapshot(Generic[P_co]):
    """The files of one day's snapshot."""

    folder: P_co

    @staticmethod
    def of(output: P, date: str) -> Snapshot[P]:
        """Return the snapshot of a day, there or not."""
        return Snapshot(settled(snapshot_folder(output, date)))

    @property
    def manifest(self) -> P_co:
        """The limits within which it was read."""
        return self.folder / "manifest.json"

    @property
    def records(self) -> P_co:
        """Parquet: Kafka's records."""
        return self.folder / "records"

    @property
    def requests(self) -> P_co:
        """Parquet: the journal's rows."""
        return self.folder / "requests"

    @property
    def runs(self) -> P_co:
        """Parquet: the journal's history."""
        return self.folder / "runs"

    @property
    def parts(self) -> tuple[P_co, ...]:
        """The parts that take room."""
        return (self.records, self.requests, self.runs)

    @property
    def is_complete(self) -> bool:
        """Whether it is there whole: without its last file it is no snapshot, nor where somebody
        took a part of it away."""
        is_whole = all(one.exists() for one in (self.manifest, *self.parts))
        return is_whole and (self.folder / _COMPLETE).is_file() and not self.is_pruned

    @property
    def is_pruned(self) -> bool:
        """Whether its parts were removed, or are about to be, and its manifest stays."""
        return (self.folder / _PRUNED).is_file() and self.manifest.is_file()

    @property
    def is_read(self) -> bool:
        """Whether its manifest is one of the chain's: of a day that was read to the end, also where
        its parts are gone since."""
        return (self.folder / _COMPLETE).is_file()

    def files(self) -> dict[str, int]:
        """Return its Parquet files by path within it, and how long each is."""
        found = [one for part in self.parts for one in part.glob("*.parquet")]
        return {f"{one.parent.name}/{one.name}": one.stat().st_size for one in found}

    def require_whole(self, manifest: Manifest) -> None:
        """Return when it has the files that it was written with, and no others.

        Raises:
            NotAvailable: names one that is not as it was. Fewer records would be a day with fewer
                requests, fewer rows one with losses.
        """
        there, written = self.files(), manifest.files
        wrong = sorted(one for one in {*there, *written} if there.get(one) != written.get(one))
        if written and wrong:
            what = "is missing" if wrong[0] not in there else "is not as it was written"
            raise NotAvailable(
                f"the snapshot is damaged: {self.folder / wrong[0]} {what}; read the day again: "
                f"onceward-audit run --date {manifest.date} --again"
            )

    def complete(self) -> None:
        """Write its last file.

        Raises:
            OSError: the disk is full.
        """
        put_text(self.folder / _COMPLETE, "")

    def mark_pruned(self) -> None:
        """Say for ever that its parts are removed.

        Raises:
            OSError: the disk is full.
        """
        put_text(self.folder / _PRUNED, "")


def snapshot_folder(output: P, date: str) -> P:
    """Return the folder that a day's snapshot is put into."""
    return output / "snapshot" / f"date={date}"


def take(spark: SparkSession, settings: Settings, manifest: Manifest, output: P) -> Snapshot[P]:
    """Read Kafka and the journal once and return the snapshot; an older one makes room.

    The caller holds the lock of the output folder.

    Raises:
        SettingsError: a setting that Spark's Kafka client or JDBC has no word for.
        NotAvailable: something to read from is not there, or the disk is full. Nothing is left
            that looks like a snapshot.
    """
    place = snapshot_folder(output, manifest.date)
    with explained("the snapshot cannot be written"):
        recover(place.parent)
    with replacing(place) as folder, explained("the snapshot cannot be written"):
        part = Snapshot(folder)
        stage_records(spark, settings.kafka, manifest, part.records)
        records = read_written(spark, part.records, SCHEMA)
        aborted = aborted_of(records, settings.kafka, manifest)
        links = counted_links(records, manifest)
        manifest = replace(manifest, aborted=aborted, links=links)
        read = stage_journal(
            spark,
            settings.journal.url,
            manifest,
            records=records,
            requests=part.requests,
            runs=part.runs,
        )
        # After the journal: the records that its rows name were there by now, or never.
        read = replace(read, log_ends=log_ends(settings, read))
        read.write(part.manifest)
        replace(read, files=part.files()).write(part.manifest)
        part.complete()
    return Snapshot.of(output, manifest.date)
