"""The rules about dead letters: a failure has one, and a letter has a failure.

They read the columns that `judge.gather` makes, and are never null.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_audit.judge.row_facts import state, sure
from spark_audit.stage.manifest import Manifest

# Where a request ends that has a dead letter.
LETTERED = ("FAILED", "IN_DOUBT", "EXPIRED")
PAYLOAD_GONE = "PAYLOAD_GONE"


def failed_without_dead_letter(manifest: Manifest) -> Column:
    """Return whether it failed for good before the grace and no dead letter says so (section 7).

    Not where the payload was gone, since there was nothing to keep, nor where no dead letters are
    kept of its topic. Nor where an earlier day has judged the failure: its letter lies before those
    that were read.
    """
    return _has_no_letter(manifest) & sure(_ended_before_grace(manifest))


def awaits_letter(manifest: Manifest) -> Column:
    """Return whether it failed for good within the grace, and its dead letter may still come."""
    return _has_no_letter(manifest) & sure(~_ended_before_grace(manifest))


def dead_letter_without_failure(manifest: Manifest) -> Column:
    """Return whether a dead letter tells of a failure that the journal does not have (section 7).

    Not where the record was refused for another's id: its failure stands under its coordinates.
    Requests that no client waits for have dead letters for doubts and expiries as well.
    """
    has_failed = sure(state().isin(*LETTERED)) | F.col("has_failed")
    return (F.col("accusing_letters") > 0) & ~has_failed


def _has_no_letter(manifest: Manifest) -> Column:
    if not manifest.lettered:
        return F.lit(False)
    is_due = ~F.col("row.resend") & (F.coalesce("row.code", F.lit("")) != PAYLOAD_GONE)
    is_kept = F.col("row.topic").isin(*manifest.lettered)
    is_unburied = is_kept & (F.col("dead_letters") == 0) & ~_was_buried_before(manifest)
    return sure((state() == "FAILED") & is_due & is_unburied)


def _was_buried_before(manifest: Manifest) -> Column:
    """Return whether the failure is of an earlier day, which a copy of the record has brought here,
    and its letter was acknowledged by then.

    The run of that day has looked for the letter. A request that it left open is this one's.
    """
    acknowledged_at = F.col("row.dead_letter_at")
    by_then = acknowledged_at < (manifest.before_ms or manifest.since_ms)
    # Behind a record that was left to this day lie failures of both: the day's own have no letter
    # of before it.
    is_older = F.col("row.is_reached") & (acknowledged_at < manifest.since_ms)
    return sure((F.col("row.is_earlier") & by_then) | is_older) & ~F.col("is_carried")


def _ended_before_grace(manifest: Manifest) -> Column:
    return F.col("row.finished_at") < manifest.frozen_at_ms - manifest.grace_ms
