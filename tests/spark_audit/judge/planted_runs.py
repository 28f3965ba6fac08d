"""The part of the planted day that is about runs: second ones, claims, and how they ended."""

from __future__ import annotations

from spark_audit.findings import Finding
from tests.spark_audit.judge.day import (
    BEHIND,
    DEAD_WORKER,
    FIRST_OFFSET,
    FROZEN,
    GRACE,
    HOUR,
    LAPSED_WORKER,
    MINUTE,
    NOON,
    SINCE,
    missing,
)
from tests.spark_audit.judge.planting import Planted


def sow_second_runs(planted: Planted) -> None:
    """Add requests that ran twice, each in another way."""
    day = planted.day
    row = day.journal(day.send("ran-again-after-success"), generation=2)
    day.ran(row, "SUCCEEDED")
    row = day.journal(day.send("run-doubled"))
    day.ran(row, "SUCCEEDED")
    row = day.journal(day.send("ran-again-after-death"), generation=2)
    day.ran(row, "WORKER_DIED")
    row = day.journal(day.send("wrongly-excluded"), generation=2, effect_kind="marked")
    day.ran(row, "WORKER_DIED", allowed_by="EXCLUDED")
    row = day.journal(day.send("doubt-reopened"), generation=2)
    day.ran(row, "IN_DOUBT")
    row = day.journal(day.send("transaction-twice"), generation=2, effect_kind="transactional")
    day.ran(row, "SUCCEEDED")
    twice = ("ran-again-after-success", "run-doubled", "ran-again-after-death", "wrongly-excluded")
    for request_id in (*twice, "doubt-reopened", "transaction-twice"):
        planted.expect(request_id, Finding.RAN_TWICE)
    # Its handler was declared anew between the two runs, or before a journal that says so.
    for kind in ("external", "marked"):
        row = day.journal(day.send(f"was-{kind}"), generation=2, effect_kind="transactional")
        day.ran(row, "WORKER_DIED", effect_kind=kind)
        planted.expect(f"was-{kind}", Finding.RAN_TWICE)
    row = day.journal(day.send("kind-unknown"), generation=2)
    day.ran(row, "WORKER_DIED", effect_kind=None)
    planted.expect("kind-unknown", Finding.RAN_TWICE)
    row = day.journal(day.send("doubt-of-another-kind"), generation=2, effect_kind="transactional")
    day.ran(row, "IN_DOUBT", effect_kind="external")
    planted.expect("doubt-of-another-kind", Finding.RAN_TWICE)
    # Beside what was raised, and though another was granted before it.
    row = day.journal(day.send("ran-beside-raised"), generation=3)
    day.ran(row, "SUCCEEDED", allowed_by="RAISED")
    day.ran(row, "WORKER_DIED", 2)
    planted.expect("ran-beside-raised", Finding.RAN_TWICE)
    row = day.journal(day.send("granted-after-success"), generation=2)
    day.ran(row, "SUCCEEDED", allowed_by="GRANTED")
    planted.expect("granted-after-success", Finding.RAN_TWICE)
    row = day.journal(day.send("runs-again-now", deadline_at=FROZEN), "CLAIMED", generation=2)
    day.ran(row, "SUCCEEDED")
    planted.expect("runs-again-now", Finding.RAN_TWICE)
    # Of a day before, which has judged them: one ran again since, without another record.
    for request_id, claimed_at in (("ran-again-today", SINCE), ("ran-again-before", SINCE - 1)):
        record = missing(day, request_id) | {"offset": FIRST_OFFSET - 1}
        day.ran(day.journal(record, generation=2, claimed_at=claimed_at), "SUCCEEDED")
    planted.expect("ran-again-today", Finding.RAN_TWICE)
    record = missing(day, "ran-again-behind") | BEHIND
    day.ran(day.journal(record, generation=2, claimed_at=SINCE), "SUCCEEDED")
    planted.expect("ran-again-behind", Finding.RAN_TWICE)


def sow_lawful_second_runs(planted: Planted) -> None:
    """Add requests whose second run the contract allows."""
    day = planted.day
    for allowed_by in ("SAME_KEY", "VOIDED"):
        row = day.journal(day.send(allowed_by), generation=2)
        day.ran(row, "CHILD_DIED", allowed_by=allowed_by)
        planted.expect(allowed_by)
    row = day.journal(day.send("marked-before-effect"), generation=2, effect_kind="marked")
    day.ran(row, "CHILD_DIED", effect_at=None, allowed_by="EXCLUDED")
    row = day.journal(day.send("transaction-undone"), generation=2, effect_kind="transactional")
    day.ran(row, "WORKER_DIED", allowed_by="EXCLUDED")
    row = day.journal(day.send("was-transactional"), generation=2)
    day.ran(row, "WORKER_DIED", effect_kind="transactional")
    planted.expect("was-transactional")
    row = day.journal(day.send("unknown-transaction"), generation=2, effect_kind="transactional")
    day.ran(row, "WORKER_DIED", effect_kind=None)
    planted.expect("unknown-transaction")
    row = day.journal(day.send("reopened"), generation=2)
    day.ran(row, "FAILED")
    row = day.journal(day.send("resolved"))
    day.ran(row, "IN_DOUBT")
    row = day.journal(day.send("resolved-then-reopened"), generation=2)
    day.ran(row, "IN_DOUBT")
    day.ran(row, "FAILED")
    # The database had lost commits, and what was known of them was written again.
    for outcome in ("SUCCEEDED", "IN_DOUBT"):
        row = day.journal(day.send(f"raised-{outcome}"), outcome, generation=3)
        day.ran(row, outcome, allowed_by="RAISED")
    row = day.journal(day.send("resolved-then-raised"), generation=3)
    day.ran(row, "IN_DOUBT")
    day.ran(row, "SUCCEEDED", allowed_by="RAISED")
    row = day.journal(day.send("granted-before"), generation=2)
    day.ran(row, "WORKER_DIED", allowed_by="GRANTED")
    row = day.journal(day.send("succeeded-by-one-key"), generation=2)
    day.ran(row, "SUCCEEDED", allowed_by="SAME_KEY")
    # So many generations that their bits come round again.
    row = day.journal(day.send("many-times-reopened"), generation=140)
    for generation in range(1, 140):
        day.ran(row, "FAILED", generation)
    lawful = ("marked-before-effect", "transaction-undone", "reopened", "resolved")
    put_back = ("raised-SUCCEEDED", "resolved-then-raised", "granted-before")
    for request_id in (*put_back, "succeeded-by-one-key"):
        planted.expect(request_id)
    planted.expect("raised-IN_DOUBT", Finding.IN_DOUBT)
    for request_id in (*lawful, "resolved-then-reopened", "many-times-reopened"):
        planted.expect(request_id)


def sow_claims(planted: Planted) -> None:
    """Add claims, doubts and ends, in time and late."""
    day = planted.day
    day.journal(day.send("in-doubt"), "IN_DOUBT", code="WORKER_DIED")
    planted.expect("in-doubt", Finding.IN_DOUBT)
    day.journal(day.send("stuck"), "CLAIMED", owner=DEAD_WORKER)
    planted.expect("stuck", Finding.STUCK)
    day.journal(day.send("stuck-with-a-stranger"), "CLAIMED", owner="host-3-pruned")
    planted.expect("stuck-with-a-stranger", Finding.STUCK)
    day.journal(day.send("owner-just-lapsed", deadline_at=FROZEN), "CLAIMED", owner=LAPSED_WORKER)
    planted.expect("owner-just-lapsed")
    day.journal(day.send("running", deadline_at=FROZEN), "CLAIMED")
    planted.expect("running")
    day.journal(day.send("waits-for-its-next-run", deadline_at=FROZEN), "RETRYING")
    planted.expect("waits-for-its-next-run")
    day.journal(day.send("runs-for-hours", deadline_at=FROZEN - GRACE), "CLAIMED")
    planted.expect("runs-for-hours", Finding.STUCK)
    day.journal(day.send("waits-for-hours", deadline_at=FROZEN - GRACE), "RETRYING")
    planted.expect("waits-for-hours", Finding.OVERDUE)
    day.journal(day.send("late", deadline_at=NOON + HOUR - 1), finished_at=NOON + HOUR)
    planted.expect("late", Finding.LATE)
    day.journal(day.send("in-time", deadline_at=NOON + HOUR), finished_at=NOON + HOUR)
    planted.expect("in-time")
    expired = day.send("expired", deadline_at=NOON + MINUTE)
    day.journal(expired, "EXPIRED", claimed_at=None, effect_at=None, finished_at=NOON + HOUR)
    planted.expect("expired")
    # Another of its key has succeeded in its stead, or it was not to run: neither is lost.
    never = {"claimed_at": None, "effect_at": None}
    day.journal(day.send("skipped"), "SKIPPED", **never)
    planted.expect("skipped")
    day.journal(day.send("not-applicable"), "SKIPPED", code="NOT_APPLICABLE")
    planted.expect("not-applicable")
