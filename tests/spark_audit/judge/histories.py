"""Histories of requests at random, lawful or not: whatever a journal and a topic could hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.spark_audit.judge.day import (
    DEAD_WORKER,
    FIRST_OFFSET,
    FROZEN,
    GRACE,
    HOUR,
    LIVING_WORKER,
    MINUTE,
    NOON,
    OTHER_PAYLOAD,
    PAYLOAD,
    SECOND,
    SINCE,
    UNTIL,
    Day,
    Facts,
    coordinates_id,
)

Choose = Callable[[Sequence[Any]], Any]

TIMES = (NOON, NOON, SINCE, SINCE - 1, UNTIL - 1, UNTIL, -1)
DEADLINES = (None, NOON + HOUR, FROZEN - GRACE, FROZEN - GRACE + 1, FROZEN + HOUR)
PAYLOADS = (PAYLOAD, PAYLOAD, PAYLOAD, OTHER_PAYLOAD)
STATES = (
    *("CLAIMED", "RETRYING", "SUCCEEDED", "SUCCEEDED", "FAILED"),
    *("IN_DOUBT", "EXPIRED", "SKIPPED"),
)
OUTCOMES = ("SUCCEEDED", "FAILED", "IN_DOUBT", "IN_DOUBT", "WORKER_DIED", "RETRYING")
KINDS = ("external", "marked", "transactional", None)
OWNERS = (LIVING_WORKER, DEAD_WORKER, "host-3-unknown")
CODES = (None, "REJECTED", "PAYLOAD_GONE", "PAYLOAD_MISMATCH")
REASONS = (None, "REJECTED", "PAYLOAD_MISMATCH")
ENDS = (NOON + MINUTE, NOON + HOUR, NOON + HOUR + 1, FROZEN - GRACE, FROZEN - GRACE - 1)
ALLOWED = ("SAME_KEY", "VOIDED", "EXCLUDED", "RAISED", "GRANTED")
SELDOM = (False, False, False, True)


def add_history(day: Day, request_id: str, choose: Choose) -> None:
    """Add one request's history to a day.

    Args:
        choose: returns one of what it is given; it alone decides what the history is.
    """
    records = [_record(day, request_id, choose) for _ in range(choose((0, 1, 1, 1, 2, 3)))]
    at = choose(records) if records else _nowhere(day, request_id, choose)
    for _ in range(choose((0, 0, 0, 1, 2))):
        day.bury(at, choose((NOON, UNTIL)), reason=choose(REASONS))
    row = _row(day, at, choose)
    for _ in range(choose((0, 0, 1, 2, 3))):
        day.ran(
            row,
            choose(OUTCOMES),
            choose((1, 2, 3)),
            claimed_at=at["timestamp_ms"] + SECOND,
            effect_at=choose((NOON, NOON, None)),
            effect_kind=choose(KINDS),
            allowed_by=choose((None, None, None, *ALLOWED)),
        )
    if choose((False, True, True)):
        return
    day.requests.remove(row)


def _record(day: Day, request_id: str, choose: Choose) -> Facts:
    if choose(SELDOM):
        return day.send_retry(request_id, choose(TIMES), is_committed=not choose(SELDOM))
    return day.send(
        request_id,
        choose(TIMES),
        partition=choose((0, 1)),
        attempt=choose((1, 2)),
        deadline_at=choose(DEADLINES),
        payload_sha256=choose(PAYLOADS),
        is_committed=not choose(SELDOM),
        is_malformed=choose(SELDOM),
        reopens=choose((None, None, 0, 1, 2)),
    )


def _nowhere(day: Day, request_id: str, choose: Choose) -> Facts:
    """Return a record that is nowhere: what a row, a run or a dead letter may still name."""
    record = day.send(request_id, choose((NOON, SINCE - HOUR, UNTIL, UNTIL + GRACE)))
    day.records.remove(record)
    elsewhere: tuple[Facts, ...] = (
        {},
        {"topic": "gone"},
        {"partition": 99},
        {"offset": FIRST_OFFSET - 1},
        {"offset": 2**62},
    )
    return {**record, **choose(elsewhere)}


def _row(day: Day, at: Facts, choose: Choose) -> Facts:
    ran = not choose(SELDOM)
    names = (at["request_id"], coordinates_id(at), f"sha256-{'0' * 63}{choose('0123')}")
    facts = {
        # Seldom a refusal: a row of the same place under a name made of it.
        "request_id": at["request_id"] if ran else choose(names),
        "generation": choose((1, 2, 3)),
        "effect_kind": choose(KINDS),
        "effect_at": choose((NOON, None)),
        "payload_sha256": choose(PAYLOADS),
        "owner": choose(OWNERS),
        "code": choose(CODES),
        "resend": choose(SELDOM),
        "dead_letter_at": choose((None, SINCE - 1, SINCE)),
        "finished_at": choose(ENDS),
        "deadline_at": choose((NOON + HOUR, FROZEN + HOUR)),
    }
    return day.journal(at, choose(STATES), **facts | ({} if ran else {"claimed_at": None}))
