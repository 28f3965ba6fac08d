"""A day with one of everything: each request, and what is to be found about it."""

from __future__ import annotations

from spark_audit.findings import Finding
from spark_audit.stage.manifest import ForgottenPartition
from tests.spark_audit.judge.day import (
    DEAD_WORKER,
    DEADLINE,
    FIRST_OFFSET,
    FROZEN,
    GRACE,
    HOUR,
    MINUTE,
    NOON,
    OTHER_PAYLOAD,
    PRUNED_TOPIC,
    SECOND,
    SINCE,
    UNTIL,
    Facts,
    coordinates_id,
    missing,
)
from tests.spark_audit.judge.planted_letters import sow_copies_of_failures, sow_letters
from tests.spark_audit.judge.planted_runs import sow_claims, sow_lawful_second_runs, sow_second_runs
from tests.spark_audit.judge.planting import Planted

HOSTILE = ("<script>alert(1)</script>", "';DROP/**/TABLE--", '"=cmd|x!A0"', "x" * 128, "\\u0000%s")


def plant() -> Planted:
    """Return the day."""
    planted = Planted()
    for sow in (
        _window,
        _ids,
        _losses,
        _pruned,
        _refusals,
        sow_second_runs,
        sow_lawful_second_runs,
        sow_claims,
        _orphans,
        _resends,
        sow_letters,
        sow_copies_of_failures,
        _backlog,
        _asked_again,
        _carried,
    ):
        sow(planted)
    return planted


def _window(planted: Planted) -> None:
    day = planted.day
    times = {"first": SINCE, "last": UNTIL - 1, "before": SINCE - 1, "after": UNTIL}
    for name, at in times.items():
        day.journal(day.send(name, at))
    planted.expect("first")
    planted.expect("last")
    # Of the day before, but its second sending is of this day: it is judged on both.
    day.send("over-midnight", SINCE - MINUTE)
    day.journal(day.send("over-midnight", SINCE + MINUTE, attempt=2))
    planted.expect("over-midnight", Finding.RESENT)
    # Of this day, and sent again on the next: that is why it is not lost.
    day.send("answered-tomorrow", UNTIL - MINUTE)
    day.journal(day.send("answered-tomorrow", UNTIL + MINUTE, attempt=2, partition=1))
    planted.expect("answered-tomorrow", Finding.RESENT)


def _ids(planted: Planted) -> None:
    day = planted.day
    for request_id in HOSTILE:
        day.send(request_id)
        planted.expect(request_id, Finding.LOST)
    for upper in ("case", "CASE"):
        day.journal(day.send(upper))
        planted.expect(upper)
    unnamed = day.send("")
    day.journal(unnamed)
    planted.expect(unnamed["request_id"])
    unnamed_and_lost = day.send("", partition=1)
    planted.expect(unnamed_and_lost["request_id"], Finding.LOST)


def _losses(planted: Planted) -> None:
    day = planted.day
    day.send("lost")
    planted.expect("lost", Finding.LOST)
    # Its time, with the grace, is over in this very millisecond, or in the next.
    day.send("lost-by-its-deadline", deadline_at=FROZEN - GRACE)
    planted.expect("lost-by-its-deadline", Finding.LOST)
    day.send("in-flight", deadline_at=FROZEN - GRACE + 1)
    planted.expect("in-flight")
    day.send("lost-without-a-deadline", FROZEN - GRACE - DEADLINE)
    planted.expect("lost-without-a-deadline", Finding.LOST)
    day.send("in-flight-without-a-deadline", FROZEN - GRACE - DEADLINE + 1)
    planted.expect("in-flight-without-a-deadline")
    row = day.journal(day.send("row-deleted"))
    day.requests.remove(row)
    day.ran(row, "WORKER_DIED")
    planted.expect("row-deleted", Finding.LOST)
    day.send("timeless", at=-1, in_window=True)
    planted.expect("timeless", Finding.LOST)
    # Of a sender whose clock is ahead: its deadline is by as much too late.
    ahead = FROZEN + 1000 * HOUR
    day.send("in-flight-by-a-clock-ahead", ahead, in_window=True, deadline_at=ahead)
    planted.expect("in-flight-by-a-clock-ahead")
    day.send(
        "lost-by-a-clock-ahead",
        ahead,
        in_window=True,
        arrived_by_ms=FROZEN - GRACE,
        deadline_at=ahead,
    )
    planted.expect("lost-by-a-clock-ahead", Finding.LOST)


def _pruned(planted: Planted) -> None:
    day = planted.day
    day.send("pruned", topic=PRUNED_TOPIC, deadline_at=NOON + MINUTE)
    planted.expect("pruned", Finding.FORGOTTEN)
    day.send("pruned-without-a-deadline", topic=PRUNED_TOPIC)
    planted.expect("pruned-without-a-deadline", Finding.FORGOTTEN)
    # It had more time than anything that was pruned.
    day.send("younger-than-what-was-pruned", topic=PRUNED_TOPIC, deadline_at=NOON + 2 * MINUTE)
    planted.expect("younger-than-what-was-pruned", Finding.LOST)
    day.journal(day.send("kept-by-pruning", topic=PRUNED_TOPIC))
    planted.expect("kept-by-pruning")
    last = day.send("resent-before-pruning", topic=PRUNED_TOPIC, deadline_at=NOON + MINUTE)
    day.send("resent-before-pruning", attempt=2, deadline_at=NOON + MINUTE)
    planted.expect("resent-before-pruning", Finding.FORGOTTEN, Finding.RESENT)
    day.forgotten = (ForgottenPartition(PRUNED_TOPIC, 0, last["offset"] + 1, NOON + MINUTE),)
    # They may be copies of what was pruned, which was answered from its row: behind it, and in
    # another partition.
    for number in (0, 1):
        request_id = f"behind-what-was-pruned-{number}"
        day.send(request_id, topic=PRUNED_TOPIC, partition=number, deadline_at=NOON + MINUTE)
        planted.expect(request_id, Finding.FORGOTTEN)
    day.send("behind-it-and-younger", topic=PRUNED_TOPIC, deadline_at=NOON + 2 * MINUTE)
    planted.expect("behind-it-and-younger", Finding.LOST)
    # A handler may allow less time than the settings: they may have had none to speak of.
    times = {"sent-before-what-was-pruned": NOON + MINUTE, "sent-after-it": NOON + MINUTE + 1}
    for request_id, at in times.items():
        day.send(request_id, at, topic=PRUNED_TOPIC, partition=1)
    planted.expect("sent-before-what-was-pruned", Finding.FORGOTTEN)
    planted.expect("sent-after-it", Finding.LOST)


def _refusals(planted: Planted) -> None:
    day = planted.day
    malformed = day.send("", is_malformed=True)
    day.refuse(malformed, "INVALID_MESSAGE")
    day.bury(malformed, reason="INVALID_MESSAGE")
    planted.expect(malformed["request_id"], Finding.MALFORMED)
    forgotten = day.send("", is_malformed=True)
    planted.expect(forgotten["request_id"], Finding.MALFORMED, Finding.LOST)
    # Another payload under an id that is taken: refused under its coordinates.
    day.journal(day.send("taken"))
    taken = day.send("taken", payload_sha256=OTHER_PAYLOAD)
    day.refuse(taken, "PAYLOAD_MISMATCH")
    day.bury(taken | {"request_id": coordinates_id(taken)}, reason="PAYLOAD_MISMATCH")
    day.bury(taken, reason="PAYLOAD_MISMATCH")
    planted.expect("taken", Finding.PAYLOAD_MISMATCH, Finding.RESENT)
    planted.expect(coordinates_id(taken))
    # No record has the id of this row, but the place that it is named by has one.
    again = day.send("taken", payload_sha256=OTHER_PAYLOAD)
    day.refuse(again, "PAYLOAD_MISMATCH")
    planted.expect(coordinates_id(again), Finding.FAILED_WITHOUT_DEAD_LETTER)
    day.journal(day.send("row-of-another"), payload_sha256=OTHER_PAYLOAD)
    planted.expect("row-of-another", Finding.PAYLOAD_MISMATCH)


def _orphans(planted: Planted) -> None:
    day = planted.day
    day.journal(missing(day, "orphan"))
    planted.expect("orphan", Finding.ORPHAN)
    elsewhere = missing(day, "orphan-of-no-topic") | {"topic": "gone"}
    day.journal(elsewhere)
    planted.expect("orphan-of-no-topic", Finding.ORPHAN)
    # Refused, but under an id that is not that of its place.
    day.refuse(missing(day, ""), "INVALID_MESSAGE", request_id="orphan-refused", resend=True)
    planted.expect("orphan-refused", Finding.ORPHAN)
    # It ran, under an id that looks like the one of its place.
    claimed = missing(day, "")
    day.journal(claimed, "FAILED", resend=True)
    planted.expect(claimed["request_id"], Finding.ORPHAN)
    # From a record behind the freeze: tomorrow's.
    day.journal(missing(day, "behind-the-freeze") | {"offset": FIRST_OFFSET + 10_000})
    # No record has ever been there.
    day.journal(missing(day, "behind-the-end") | {"offset": 2 * FIRST_OFFSET})
    planted.expect("behind-the-end", Finding.ORPHAN)
    # Claimed on another day: its offset is this one's all the same.
    day.journal(missing(day, "claimed-next-day") | {"timestamp_ms": UNTIL + GRACE})
    planted.expect("claimed-next-day", Finding.ORPHAN)
    # Only the retry was read: its first record lies before the day.
    retried = day.send_retry("retried")
    day.journal(retried | {"topic": "pay", "offset": FIRST_OFFSET}, claimed_at=NOON)
    planted.expect("retried")


def _resends(planted: Planted) -> None:
    day = planted.day
    day.send("resent", NOON)
    day.send("resent", NOON + 30 * SECOND, attempt=2, partition=1)
    day.journal(day.send("resent", NOON + MINUTE, attempt=3))
    planted.expect("resent", Finding.RESENT)
    # Its first sending was enough: the resend was answered from the journal.
    day.journal(day.send("resent-and-answered", NOON))
    day.send("resent-and-answered", NOON + MINUTE, attempt=2, partition=1)
    planted.expect("resent-and-answered", Finding.RESENT)
    day.send("resent-in-vain", NOON)
    day.send("resent-in-vain", NOON, attempt=2)
    planted.expect("resent-in-vain", Finding.RESENT, Finding.LOST)
    day.send("two-payloads-lost", NOON)
    day.send("two-payloads-lost", NOON, payload_sha256=OTHER_PAYLOAD)
    both = (Finding.RESENT, Finding.LOST, Finding.PAYLOAD_MISMATCH)
    planted.expect("two-payloads-lost", *both)
    day.journal(
        day.send("may-be-resent", deadline_at=FROZEN + 1), "FAILED", resend=True, code="DOWN"
    )
    planted.expect("may-be-resent")
    day.journal(day.send("too-late-to-resend", deadline_at=FROZEN), "FAILED", resend=True)
    planted.expect("too-late-to-resend")


def _backlog(planted: Planted) -> None:
    day = planted.day
    day.send("pending", deadline_at=FROZEN - GRACE + 1, is_committed=False)
    planted.expect("pending")
    day.send("never-delivered", deadline_at=FROZEN - GRACE, is_committed=False)
    planted.expect("never-delivered", Finding.OVERDUE)
    day.send("never-delivered-without-a-deadline", is_committed=False)
    planted.expect("never-delivered-without-a-deadline", Finding.OVERDUE)
    day.send("pending-in-time", deadline_at=FROZEN, is_committed=False)
    planted.expect("pending-in-time")
    day.send("resend-pending")
    day.send("resend-pending", attempt=2, partition=1, is_committed=False)
    planted.expect("resend-pending", Finding.RESENT, Finding.OVERDUE)
    day.journal(day.send("done-but-resent"))
    day.send("done-but-resent", UNTIL + MINUTE, attempt=2, is_committed=False)
    planted.expect("done-but-resent", Finding.RESENT)
    day.journal(day.send("reopens", deadline_at=FROZEN + HOUR), "FAILED", resend=True)
    day.send("reopens", attempt=2, deadline_at=FROZEN + HOUR, is_committed=False)
    planted.expect("reopens", Finding.RESENT)
    # Its client asked again, and was heard by nobody until its time was over.
    day.journal(day.send("never-reopened", deadline_at=FROZEN - GRACE), "FAILED", resend=True)
    day.send("never-reopened", attempt=2, deadline_at=FROZEN - GRACE, is_committed=False)
    planted.expect("never-reopened", Finding.RESENT, Finding.OVERDUE)


def _asked_again(planted: Planted) -> None:
    """Sow failures that were sent again: delivered, and no row tells of it."""
    day = planted.day
    lost: dict[str, Facts] = {
        "asked-again-and-lost": {"reopens": 1},
        "asked-again-in-time": {"reopens": 1, "deadline_at": FROZEN},
        # Sent by somebody who did not know of this failure: answered from the row.
        "asked-again-of-an-earlier": {"reopens": 0},
        "asked-again-of-nothing": {},
        # Refused, each.
        "asked-again-elsewhere": {"reopens": 1, "topic": PRUNED_TOPIC},
        "asked-again-otherwise": {"reopens": 1, "payload_sha256": OTHER_PAYLOAD},
        # It was read, and the failure closed.
        "asked-again-too-late": {"reopens": 1},
        "asked-again-by-an-old-record": {"reopens": 1, "attempt": 1},
    }
    for request_id, facts in lost.items():
        given: Facts = {"deadline_at": NOON + HOUR, "attempt": 2} | facts
        failed = day.send(request_id, deadline_at=given["deadline_at"])
        resend = request_id != "asked-again-too-late"
        day.journal(failed, "FAILED", resend=resend, code="PAYLOAD_GONE")
        day.send(request_id, NOON + MINUTE, **given)
        planted.expect(request_id, Finding.RESENT)
    planted.expect("asked-again-and-lost", Finding.RESENT, Finding.OVERDUE)
    planted.expect("asked-again-otherwise", Finding.RESENT, Finding.PAYLOAD_MISMATCH)
    # The resend failed as well: it has a generation of its own.
    failed = day.send("asked-again-and-failed", deadline_at=NOON + HOUR)
    again = {"deadline_at": NOON + HOUR, "attempt": 2, "reopens": 1}
    record = day.send("asked-again-and-failed", NOON + MINUTE, **again)
    day.ran(day.journal(record, "FAILED", resend=True, generation=2), "FAILED")
    planted.expect("asked-again-and-failed", Finding.RESENT)


def _carried(planted: Planted) -> None:
    day = planted.day
    day.send("carried-and-lost", SINCE - HOUR)
    planted.expect("carried-and-lost", Finding.LOST)
    day.journal(day.send("carried-and-well", SINCE - HOUR))
    planted.expect("carried-and-well")
    # Its record lies before everything that was read.
    record = missing(day, "carried-claim") | {"offset": FIRST_OFFSET - 1, "timestamp_ms": SINCE - 1}
    day.journal(record, "CLAIMED", owner=DEAD_WORKER)
    planted.expect("carried-claim", Finding.STUCK)
    day.carried = (
        *("carried-and-lost", "carried-and-well", "carried-claim", "carried-and-gone"),
        "copied-and-carried",
    )
