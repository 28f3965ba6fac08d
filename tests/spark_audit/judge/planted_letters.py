"""Dead letters of a day: each request, and what is to be found about it."""

from __future__ import annotations

from spark_audit.findings import Finding
from tests.spark_audit.judge.day import (
    BEHIND,
    FIRST_OFFSET,
    FROZEN,
    GRACE,
    HOUR,
    MINUTE,
    SINCE,
    missing,
)
from tests.spark_audit.judge.planting import Planted


def sow_letters(planted: Planted) -> None:
    """Sow failures with and without a dead letter, and letters without a failure."""
    day = planted.day
    buried = day.send("buried")
    day.journal(buried, "FAILED", code="REJECTED")
    day.bury(buried)
    planted.expect("buried")
    day.journal(day.send("not-buried"), "FAILED", code="REJECTED")
    planted.expect("not-buried", Finding.FAILED_WITHOUT_DEAD_LETTER)
    day.journal(day.send("nothing-to-bury"), "FAILED", code="PAYLOAD_GONE")
    planted.expect("nothing-to-bury")
    day.journal(day.send("about-to-be-buried"), "FAILED", finished_at=FROZEN - GRACE)
    planted.expect("about-to-be-buried", Finding.LATE)
    doubtful = day.send("buried-in-doubt")
    day.journal(doubtful, "IN_DOUBT", code="WORKER_DIED")
    day.bury(doubtful)
    planted.expect("buried-in-doubt", Finding.IN_DOUBT)
    expired = day.send("buried-expired")
    day.journal(expired, "EXPIRED")
    day.bury(expired)
    planted.expect("buried-expired")
    alive = day.send("buried-alive")
    day.journal(alive)
    day.bury(alive)
    planted.expect("buried-alive", Finding.DEAD_LETTER_WITHOUT_FAILURE)
    unknown = day.send("buried-unknown")
    day.bury(unknown)
    planted.expect("buried-unknown", Finding.DEAD_LETTER_WITHOUT_FAILURE, Finding.LOST)
    ended = day.send("ended-unknown")
    day.pass_on(ended)
    planted.expect("ended-unknown", Finding.LOST)
    # Two more that a worker had begun, as the database has lost.
    day.end_wait(day.send("waited-unknown"))
    planted.expect("waited-unknown", Finding.LOST)
    day.send_retry(day.send("retried-unknown")["request_id"])
    planted.expect("retried-unknown", Finding.LOST)
    ended_and_known = day.send("ended-and-known")
    day.pass_on(ended_and_known)
    day.journal(ended_and_known)
    planted.expect("ended-and-known")
    # An outcome does not show that the record of a row is there.
    gone = missing(day, "ended-without-a-record")
    day.pass_on(gone)
    day.journal(gone)
    planted.expect("ended-without-a-record", Finding.ORPHAN)
    redriven = day.send("redriven")
    day.bury(redriven)
    row = day.journal(redriven, generation=2)
    day.ran(row, "FAILED")
    planted.expect("redriven")
    day.bury(missing(day, "letter-of-nothing"))
    planted.expect("letter-of-nothing", Finding.DEAD_LETTER_WITHOUT_FAILURE)
    # Of a request that was sent before the day: that day's.
    day.bury(missing(day, "letter-of-yesterday") | {"offset": FIRST_OFFSET - 1}, SINCE + MINUTE)
    # Of such ones with a row, one that has not failed: the day before did not see the letter.
    states = {"late-letter": "SUCCEEDED", "letter-in-doubt": "IN_DOUBT", "letter-seen": "SUCCEEDED"}
    for request_id, state in states.items():
        record = missing(day, request_id) | {"offset": FIRST_OFFSET - 1}
        day.journal(record, state, claimed_at=SINCE - HOUR)
        seen = {"arrived_by_ms": 0} if request_id == "letter-seen" else {}
        day.bury(record, SINCE + MINUTE, **seen)
    planted.expect("late-letter", Finding.DEAD_LETTER_WITHOUT_FAILURE)
    record = missing(day, "late-letter-behind") | BEHIND
    day.bury(day.journal(record, claimed_at=SINCE - HOUR), SINCE + MINUTE)
    planted.expect("late-letter-behind", Finding.DEAD_LETTER_WITHOUT_FAILURE)


def sow_copies_of_failures(planted: Planted) -> None:
    """Sow copies of requests that had failed on the day before, when it was judged."""
    day = planted.day
    acknowledged = {
        "copied-after-its-letter": SINCE - 1,
        "copied-without-a-letter": None,
        # The letter should be among those that were read.
        "copied-before-its-letter": SINCE,
        "copied-and-carried": SINCE - 1,
    }
    for request_id, at in acknowledged.items():
        failed = missing(day, request_id) | {
            "offset": FIRST_OFFSET - 1,
            "timestamp_ms": SINCE - HOUR,
        }
        day.journal(failed, "FAILED", dead_letter_at=at)
        day.send(request_id, SINCE + MINUTE, attempt=2)
        planted.expect(request_id, Finding.FAILED_WITHOUT_DEAD_LETTER)
    planted.expect("copied-after-its-letter")
    # A row may say what it likes of a failure of the day itself.
    day.journal(day.send("buried-by-its-word"), "FAILED", dead_letter_at=SINCE - 1)
    planted.expect("buried-by-its-word", Finding.FAILED_WITHOUT_DEAD_LETTER)
    # Behind a record that the day before left to this one: one of that day, and the day's own.
    failed = missing(day, "copied-behind") | BEHIND
    day.journal(failed, "FAILED", dead_letter_at=SINCE - 1)
    day.send("copied-behind", SINCE + MINUTE, attempt=2)
    planted.expect("copied-behind")
    day.journal(day.send("left", **BEHIND), "FAILED", dead_letter_at=SINCE + MINUTE)
    planted.expect("left", Finding.FAILED_WITHOUT_DEAD_LETTER)
