"""A day's snapshot: written beside its place and put there whole, so that half of one is none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from feedback.settings import Settings
from spark_audit.journal_version import require_version
from spark_audit.manifest import Manifest
from spark_audit.session import explained
from spark_audit.stage_journal import stage_journal
from spark_audit.stage_records import stage_records

_PART = ".part-"
_COMPLETE = "_COMPLETE"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of one day's snapshot.

    Args:
        folder: that holds them.
    """

    folder: Path

    @classmethod
    def of(cls, output: Path, date: str) -> Snapshot:
        """Return the snapshot of a day, there or not.

        Args:
            output: `[audit] output`.
            date: YYYY-MM-DD.
        """
        return cls(output / "snapshot" / f"date={date}")

    @property
    def manifest(self) -> Path:
        """The limits within which it was read."""
        return self.folder / "manifest.json"

    @property
    def records(self) -> Path:
        """Parquet: Kafka's records."""
        return self.folder / "records"

    @property
    def requests(self) -> Path:
        """Parquet: the journal's rows."""
        return self.folder / "requests"

    @property
    def runs(self) -> Path:
        """Parquet: the journal's history."""
        return self.folder / "runs"

    @property
    def is_complete(self) -> bool:
        """Whether it is there whole: without its last file it is no snapshot, nor where somebody
        took a part of it away."""
        parts = (self.manifest, self.records, self.requests, self.runs)
        return (self.folder / _COMPLETE).is_file() and all(one.exists() for one in parts)


def take(spark: SparkSession, settings: Settings, manifest: Manifest) -> Snapshot:
    """Read Kafka and the journal once and return the snapshot; an older one makes room.

    The caller holds the lock of the output folder.

    Raises:
        SettingsError: a setting that Spark's Kafka client or JDBC has no word for.
        NotAvailable: something to read from is not there, or the disk is full. Nothing is left
            that looks like a snapshot.
    """
    place = Snapshot.of(Path(settings.audit.output).absolute(), manifest.date)
    # Before Kafka is read for minutes.
    require_version(spark, settings.journal.url)
    with explained("the snapshot cannot be written"), _written_beside(place) as part:
        stage_records(spark, settings.kafka, manifest, part.records)
        read = stage_journal(
            spark,
            settings.journal.url,
            manifest,
            records=part.records,
            requests=part.requests,
            runs=part.runs,
        )
        read.write(part.manifest)
    return place


@contextmanager
def _written_beside(place: Snapshot) -> Iterator[Snapshot]:
    """Yield a snapshot to fill; it takes its place when the block ends well."""
    folder = place.folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Whoever made these died: this audit is alone here.
    for abandoned in folder.parent.glob(f"{_PART}*"):
        shutil.rmtree(abandoned)
    part = Snapshot(folder.with_name(f"{_PART}{folder.name}"))
    part.folder.mkdir()
    try:
        yield part
        _finish(part, place)
    finally:
        shutil.rmtree(part.folder, ignore_errors=True)


def _finish(part: Snapshot, place: Snapshot) -> None:
    with (part.folder / _COMPLETE).open("x") as file:
        os.fsync(file.fileno())
    old = place.folder.with_name(f"{_PART}old")
    if place.folder.exists():
        # Out of its place in one step: half removed it would still hold the file that makes it one.
        place.folder.rename(old)
    part.folder.rename(place.folder)
    shutil.rmtree(old, ignore_errors=True)
    there = os.open(place.folder.parent, os.O_RDONLY)
    try:
        os.fsync(there)
    finally:
        os.close(there)
