"""The rules of the audit: each is a column over the facts of one request.

They read the columns that `judge.gather` makes, and but for `resend_needed` they are never null.
They trust the documentation's account of the tables, not the code that writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_audit.findings import Finding
from spark_audit.judge.letter_rules import dead_letter_without_failure, failed_without_dead_letter
from spark_audit.judge.row_facts import may_reopen, state, sure
from spark_audit.stage.manifest import Manifest

Rule = Callable[[Manifest], Column]

FINAL = ("SUCCEEDED", "FAILED", "IN_DOUBT", "EXPIRED", "SKIPPED")
# A run that ended so says that nothing happened (docs: The guarantee, Effects and doubt).
NOTHING_HAPPENED = ("FAILED", "RETRYING", "EXPIRED", "SKIPPED")
# Why a run may follow one that may have had its effect. EXCLUDED is not among them: it says that
# the effect did not begin, and the run's own `effect_at` shows whether that is so. GRANTED: the
# database has lost how it ended, and that the journal had granted another since.
MAY_FOLLOW = ("SAME_KEY", "VOIDED", "GRANTED")
# Why one may follow that has succeeded: the run above it is the same run, or the counterparty knows
# both by one key.
MAY_STAND_ABOVE = ("RAISED", "SAME_KEY")
TRANSACTIONAL = "transactional"
PAYLOAD_MISMATCH = "PAYLOAD_MISMATCH"


def has_row() -> Column:
    """Return whether the journal has a row of it."""
    return F.col("row").isNotNull()


def has_record() -> Column:
    """Return whether a record of it was read, in whichever topic."""
    return F.col("sightings") > 0


def deadline_at() -> Column:
    """Return when the request's time is over, epoch ms; null when nothing names it.

    Its row's, else the latest that its records name.
    """
    return F.coalesce("row.deadline_at", "deadline_at")


def is_final() -> Column:
    """Return whether the journal says how the request has ended (docs: Statuses)."""
    return sure(state().isin(*FINAL))


def is_pending() -> Column:
    """Return whether a record of it has still to be delivered, and may change how it ends.

    Any record that the committed offset does not cover, not only the last by time: a resend may
    have gone to another partition, and clocks differ. A final request is only reopened where its
    row says so (docs: The guarantee).
    """
    return F.col("has_undelivered") & (~is_final() | may_reopen())


def is_in_flight(manifest: Manifest) -> Column:
    """Return whether it was delivered and has time left: its deadline, and then the grace."""
    return ~is_pending() & ~is_final() & sure(~_is_over(manifest))


def lost(manifest: Manifest) -> Column:
    """Return whether it was delivered, its time is over, and the journal knows nothing of it.

    Every record that a worker has committed leaves a row, refused ones under their coordinates, by
    which a malformed one is named here as well (docs: The guarantee, Kafka records). Not where
    pruning may have deleted that row.
    """
    return _has_no_row_in_time(manifest) & ~F.col("may_be_forgotten")


def forgotten(manifest: Manifest) -> Column:
    """Return whether it would be lost, were its row not one that pruning may have deleted."""
    return _has_no_row_in_time(manifest) & F.col("may_be_forgotten")


def overdue(manifest: Manifest) -> Column:
    """Return whether its time is over, and no run of it goes on: it was never delivered, nor was
    the record that would reopen its failure, or a worker has lost that, or it waits for its next
    run (docs: The guarantee).

    A claimed request is `stuck` instead.
    """
    waits = (F.col("has_undelivered") & (~has_row() | may_reopen())) | (state() == "RETRYING")
    waits |= _is_asked_again(manifest)
    return sure(waits & _is_over(manifest))


def ran_twice(manifest: Manifest) -> Column:
    """Return whether more than one run may have had its effect (docs: The guarantee)."""
    return effect_runs() > 1


def effect_runs() -> Column:
    """Return how many runs may have had their effect.

    A transactional run has it only with its finish, so only one that SUCCEEDED counts. Of others
    also one that entered its effect counts, unless its end says that nothing happened, or the
    history says why another could follow it. One that SUCCEEDED does not count where the history
    says that the run above it is the same run, or has the same key. Each run is of the kind that
    its handler declared then; where an old history does not say it, of the row's. A doubt that
    was resolved stands in the history under the generation of the run that it became: that run
    counts, the doubt does not.
    """
    ran = F.col("row.claimed_at").isNotNull()
    has_entered = state().isin("CLAIMED", "IN_DOUBT") & F.col("row.effect_at").isNotNull()
    is_transactional = sure(F.col("row.effect_kind") == TRANSACTIONAL)
    succeeded = F.col("succeeded") + _one_if(ran & (state() == "SUCCEEDED"))
    settled = F.col("settled").bitwiseOR(F.when(ran, bit_of("row.generation")).otherwise(0))
    undeclared = F.when(is_transactional, 0).otherwise(F.col("undeclared_doubts"))
    doubts = F.col("doubts").bitwiseOR(undeclared)
    open_doubts = F.bit_count(doubts.bitwiseAND(F.bitwise_not(settled)))
    entered = F.when(is_transactional, 0).otherwise(
        F.col("undeclared_entered") + _one_if(ran & has_entered)
    )
    return (succeeded + F.col("entered") + entered + open_doubts).cast("int")


def bit_of(generation: str) -> Column:
    """Return a generation as one bit of a set; those 63 apart share one.

    A doubt may then be taken for settled by a run 63 generations away: a deadline ends a request
    long before.
    """
    return F.expr(f"shiftleft(1L, CAST(pmod({generation}, 63) AS INT))")


def in_doubt(manifest: Manifest) -> Column:
    """Return whether nobody knows if its effect happened, and nobody has resolved it yet."""
    return sure(state() == "IN_DOUBT")


def stuck(manifest: Manifest) -> Column:
    """Return whether it is claimed, and its worker's lease was over before the grace, or its
    deadline was.

    A peer's sweep goes on with a claim within a lease after it (docs: How it works). A worker that
    the journal does not know any more was pruned, long after its lease.
    """
    latest = manifest.journal_read_at_ms - manifest.grace_ms
    living = [worker for worker, until in manifest.workers.items() if until >= latest]
    is_dead = ~F.col("row.owner").isin(living) if living else F.lit(True)
    is_late = sure(F.col("row.deadline_at") <= manifest.frozen_at_ms - manifest.grace_ms)
    return sure((state() == "CLAIMED") & (is_dead | is_late))


def orphan(manifest: Manifest) -> Column:
    """Return whether its row names a record that was read up to, and is not there.

    No record of its id, at a staged place, or on a partition that the group's topics do not have. A
    refused record leaves its row under its coordinates while it keeps its own
    id (docs: The guarantee): a row that never ran, named by the place that it came from, is none.
    Nor is one of a compacted topic, which may have forgotten the record.
    """
    if manifest.compacted:
        has_forgotten = F.col("row.topic").isin(*manifest.compacted)
    else:
        has_forgotten = F.lit(False)
    numbers = (F.col(f"row.{one}").cast("string") for one in ("partition", "offset"))
    prefix = F.concat_ws("-", "row.topic", *numbers, F.lit(""))
    named_by_place = F.startswith("request_id", prefix) | F.col("request_id").rlike(
        r"\Asha256-[0-9a-f]{64}\z"
    )
    is_refusal = (state() == "FAILED") & F.col("row.claimed_at").isNull() & named_by_place
    is_missing = F.coalesce("row.is_staged", F.lit(True))  # null: such a partition is not known
    return has_row() & ~has_record() & is_missing & ~sure(is_refusal) & ~sure(has_forgotten)


def payload_mismatch(manifest: Manifest) -> Column:
    """Return whether one id was sent with two payloads, or its row is of another (section 3)."""
    is_sent_with_two = F.col("least_payload") != F.col("greatest_payload")
    is_of_another = ~F.col("row.payload_sha256").isin(
        F.col("least_payload"), F.col("greatest_payload")
    )
    return sure(is_sent_with_two) | sure(is_of_another)


def resent(manifest: Manifest) -> Column:
    """Return whether its topic has it more than once; `records` says how often."""
    return F.col("records") > 1


def resend_needed(manifest: Manifest) -> Column:
    """Return whether only a later sending brought a resent request to where it stands.

    A row has the attempt of the record whose claim made it, or reopened it after a failure; a
    resend that is only answered leaves it as it is, and so do takeovers and retries (docs: Words,
    The guarantee). So a row of a later attempt than the first one on the topic says that the first
    one's own delivery did not make this outcome. Null where it was not resent, and where it has no
    row: nothing is known then.
    """
    is_later = F.col("row.attempt") > F.col("least_attempt")
    return F.when(resent(manifest), is_later)


def awaits_reopening(manifest: Manifest) -> Column:
    """Return whether a record that reopens its failure was delivered, and has time left."""
    return _is_asked_again(manifest) & sure(~_is_over(manifest))


def malformed(manifest: Manifest) -> Column:
    """Return whether its headers break docs: Kafka records."""
    return F.col("has_malformed")


def late(manifest: Manifest) -> Column:
    """Return whether it succeeded or failed after the deadline of its row."""
    is_after = F.col("row.finished_at") > F.col("row.deadline_at")
    return sure(state().isin("SUCCEEDED", "FAILED") & is_after)


def can_resend(manifest: Manifest) -> Column:
    """Return whether its record may be sent again as it is, and a worker would rightly run it.

    Nothing of it is in the journal: no row, and no run in the history, whose row was then taken
    away by somebody, and none that pruning may have deleted. Nor does a dead letter, a retry, a
    wait record or an outcome say that it was begun, or may be yet. It must be known when its time
    was over, its payload must be one, and its headers ours to repeat. A failure is not
    among them, also where its row says that a resend may help: its client was told, and may have
    asked for the same under another id since, which nobody sees here (docs: The guarantee).
    """
    is_unknown = ~has_row() & (F.col("history") == 0)
    is_unknown &= F.col("sightings") == F.col("records")
    is_unknown &= ~F.col("may_be_forgotten") & ~F.col("has_outcome")
    is_unknown &= ~F.col("has_unknown_time")
    is_whole = (F.col("records") > 0) & ~payload_mismatch(manifest) & ~malformed(manifest)
    return is_whole & ~is_pending() & is_unknown


RULES: Mapping[Finding, Rule] = {
    Finding.LOST: lost,
    Finding.FORGOTTEN: forgotten,
    Finding.OVERDUE: overdue,
    Finding.RAN_TWICE: ran_twice,
    Finding.IN_DOUBT: in_doubt,
    Finding.STUCK: stuck,
    Finding.ORPHAN: orphan,
    Finding.PAYLOAD_MISMATCH: payload_mismatch,
    Finding.RESENT: resent,
    Finding.FAILED_WITHOUT_DEAD_LETTER: failed_without_dead_letter,
    Finding.DEAD_LETTER_WITHOUT_FAILURE: dead_letter_without_failure,
    Finding.MALFORMED: malformed,
    Finding.LATE: late,
}


def _has_no_row_in_time(manifest: Manifest) -> Column:
    delivered = (F.col("records") > 0) & ~F.col("has_undelivered")
    return delivered & ~has_row() & sure(_is_over(manifest))


def _is_over(manifest: Manifest) -> Column:
    return deadline_at() <= manifest.frozen_at_ms - manifest.grace_ms


def _is_asked_again(manifest: Manifest) -> Column:
    """Return whether somebody who had read of its failure has sent it again, that was delivered,
    and its row is as if it had not been.

    A worker that takes such a record reopens the failure, or closes it after the deadline. It
    refuses it where payload or topic are another's.
    """
    asked = F.col("reopening.reopens") >= F.col("row.generation")
    asked &= F.col("reopening.attempt") > F.col("row.attempt")
    asked &= F.col("reopening.topic") == F.col("row.topic")
    return may_reopen() & sure(asked) & ~payload_mismatch(manifest)


def _one_if(condition: Column) -> Column:
    return F.when(condition, 1).otherwise(0)
