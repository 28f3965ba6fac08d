"""The journal's rows and history as Parquet, read by JDBC in slices of whole requests.

Which rows. Those whose record lies at or after the start of its partition; those of requests that
an earlier run carried over; and those of every id that a staged record names, wherever its row came
from: a resend after midnight is answered from the row of the day before. History goes with its
request: a run of yesterday counts when the request ran again today.

Through its indexes, each part once. Rows by the time of their claim: whoever claims a row puts it
behind the time at which the reading began, so rows that were claimed since are read last, and a row
that is there already stays as it was found. None is missed, and none is there twice. Rows that were
claimed before the day by more than the grace are asked for by id alone: the judge takes no such row
for one of the day. Runs by their number, in which they were written. Ids by the key.

Rows first, history after: a run that ends in between stands in both with the same generation, never
in none. Leases are read before and after, so that neither a worker that stopped meanwhile nor one
that started seems to be dead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from feedback.errors import NotAvailable
from spark_audit.output.location import Location, read_written, uri_of
from spark_audit.spark import ids_frame
from spark_audit.stage import journal_sql
from spark_audit.stage.jdbc import Database
from spark_audit.stage.journal_sql import REQUEST_SCHEMA, RUN_SCHEMA
from spark_audit.stage.manifest import ForgottenPartition, Manifest, TopicKind

# Each is a connection of the database.
MAX_SLICES = 8
MIN_SLICES = 2
# So many ids are asked for by name; for more, the whole table is read and cut down here.
MAX_IDS = 100_000


def stage_journal(
    spark: SparkSession,
    url: str,
    manifest: Manifest,
    *,
    records: DataFrame,
    requests: Location,
    runs: Location,
) -> Manifest:
    """Write rows and history; return the manifest with the leases and the time of reading.

    Args:
        url: `[journal] url`.
        records: the staged records.
        requests: a new folder for rows, with the columns of `REQUEST_SCHEMA`.
        runs: a new folder for the history, with the columns of `RUN_SCHEMA`.

    Raises:
        SettingsError: the URL has parts that JDBC has no word for.
        NotAvailable: the journal is away, is not this group's, or may not be read; or the disk is
            full.
    """
    source = _Source(spark, Database.of(url), manifest)
    before = source.leases()
    with source.database.explained():
        source.write_requests(records, requests, now_ms=before.now_ms)
        source.write_runs(records, requests, runs)
    after = source.leases()
    workers = {**before.until, **after.until}
    return replace(
        manifest,
        journal_read_at_ms=before.now_ms,
        workers=workers,
        # After the rows: rows that were deleted while they were read are marked by now.
        forgotten=source.forgotten(),
    )


@dataclass(frozen=True, slots=True)
class _Leases:
    """The leases at one moment of the database's clock."""

    now_ms: int
    until: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Source:
    """The journal, with the limits that select its rows."""

    spark: SparkSession
    database: Database
    manifest: Manifest

    def leases(self) -> _Leases:
        """Return who has a lease until when."""
        query = journal_sql.leases(self.database.kind)
        rows = self.database.ask(query, group=self.manifest.group)
        until = {row.worker_id: row.lease_until for row in rows if row.worker_id is not None}
        return _Leases(max(row.now_ms for row in rows), until)

    def forgotten(self) -> tuple[ForgottenPartition, ...]:
        """Return how far each partition was forgotten, in a stable order."""
        rows = self.database.ask(journal_sql.FORGOTTEN, group=self.manifest.group)
        return tuple(ForgottenPartition(*row) for row in sorted(tuple(row) for row in rows))

    def write_requests(self, records: DataFrame, folder: Location, *, now_ms: int) -> None:
        """Write the rows in range, then those of the ids that are still without one."""
        manifest = self.manifest
        query = journal_sql.requests_in_range(self.database.kind, manifest)
        since_ms = max(0, (manifest.before_ms or manifest.since_ms) - manifest.grace_ms)
        spans = journal_sql.claim_predicates(since_ms, max(since_ms, now_ms), self._slices)
        self._append(self._read(query, REQUEST_SCHEMA, spans), folder)
        last = [journal_sql.claimed_since(max(since_ms, now_ms))]
        claimed = self._read(query, REQUEST_SCHEMA, last)
        self._append(claimed.join(self._found(folder), "request_id", "left_anti"), folder)
        missing = self._named_by(records).join(self._found(folder), "request_id", "left_anti")
        every = journal_sql.all_requests(manifest.group)
        self._append_ids(missing.distinct(), every, REQUEST_SCHEMA, folder)
        self._require_rows(records, folder)

    def write_runs(self, records: DataFrame, requests: Location, folder: Location) -> None:
        """Write the runs in range, then the earlier ones of the requests that ran again, and of
        those that have no row: somebody may have taken it away."""
        has_column = "allowed_by" in self.database.columns("onceward_run")
        within, before = (
            journal_sql.runs_in_range(
                self.database.kind, self.manifest, with_allowed_by=has_column, in_range=in_range
            )
            for in_range in (True, False)
        )
        self._append(self._read(within, RUN_SCHEMA, self._run_slices()), folder)
        rows = self._found(requests)
        ran_again = rows.where("generation > 1").select("request_id")
        rowless = self._named_by(records).join(rows, "request_id", "left_anti")
        wanted = ran_again.union(rowless).distinct()
        self._append_ids(wanted, before, RUN_SCHEMA, folder)

    def _found(self, folder: Location) -> DataFrame:
        return read_written(self.spark, folder, "request_id string, generation long")

    def _run_slices(self) -> list[str]:
        ((first, last),) = self.database.ask(journal_sql.RUN_BOUNDS)
        return journal_sql.run_predicates(first, last, self._slices)

    @property
    def _slices(self) -> int:
        return min(MAX_SLICES, max(MIN_SLICES, self.spark.sparkContext.defaultParallelism))

    def _named_by(self, records: DataFrame) -> DataFrame:
        """Return the ids that a row is looked for: delivered, set aside or carried over."""
        aside = (TopicKind.RETRY.value, TopicKind.WAIT.value, TopicKind.DLQ.value)
        is_wanted = F.col("is_committed") | F.col("kind").isin(*aside)
        carried = ids_frame(self.spark, self.manifest.carried)
        return records.where(is_wanted).select("request_id").union(carried)

    def _append_ids(self, ids: DataFrame, query: str, schema: str, folder: Location) -> None:
        some = [row.request_id for row in ids.limit(MAX_IDS + 1).collect()]
        if len(some) > MAX_IDS:
            self._append(self._read(query, schema).join(ids, "request_id", "left_semi"), folder)
        elif some:
            self._append(self._read(query, schema, journal_sql.id_predicates(some)), folder)

    def _read(self, query: str, schema: str, predicates: Sequence[str] = ()) -> DataFrame:
        frame = self.database.read(self.spark, query, schema, predicates)
        return frame.select(*journal_sql.names_of(schema))

    def _append(self, frame: DataFrame, folder: Location) -> None:
        if "resend" in frame.columns:
            frame = frame.withColumn("resend", F.col("resend") != 0)
        frame.write.mode("append").parquet(uri_of(folder))

    def _require_rows(self, records: DataFrame, folder: Location) -> None:
        """Stand up for the case that this is another group's journal, or a new one: it would make
        a loss of every request."""
        if not self._found(folder).isEmpty():
            return
        if records.where(F.col("is_committed")).isEmpty():
            return
        if self.forgotten():
            return  # it had some, which are pruned
        every = journal_sql.all_requests(self.manifest.group)
        if self._read(every, REQUEST_SCHEMA).isEmpty():
            raise NotAvailable(
                f"the journal has no request of group {self.manifest.group} although its records "
                "were read: is [journal] url the workers' own?"
            )
