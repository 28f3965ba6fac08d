"""The names of the findings, and a judged request as it is written down for people."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

# How many of each finding the page shows.
SHOWN = 200


class FindingRow(NamedTuple):
    """A judged request; the fields are columns of the judged Parquet.

    Args:
        generation: of its latest run; 0 where it has no row.
    """

    request_id: str
    topic: str | None
    partition: int | None
    offset: int | None
    first_at: int | None
    state: str | None
    code: str | None
    attempt: int | None
    generation: int
    records: int
    runs: int
    effect_runs: int
    owner: str | None
    claimed_at: int | None
    finished_at: int | None
    deadline_at: int | None
    latency_ms: int | None
    dead_letters: int
    reason: str | None
    payload_sha256: str | None
    can_resend: bool | None
    resend_needed: bool | None


class Finding(StrEnum):
    """A fault of a request, or a doubt about it; a request may carry several."""

    LOST = "lost"
    FORGOTTEN = "forgotten"
    OVERDUE = "overdue"
    RAN_TWICE = "ran_twice"
    IN_DOUBT = "in_doubt"
    STUCK = "stuck"
    ORPHAN = "orphan"
    PAYLOAD_MISMATCH = "payload_mismatch"
    RESENT = "resent"
    FAILED_WITHOUT_DEAD_LETTER = "failed_without_dead_letter"
    DEAD_LETTER_WITHOUT_FAILURE = "dead_letter_without_failure"
    MALFORMED = "malformed"
    LATE = "late"
    STATUS_DISAGREES = "status_disagrees"
    RETENTION_GAP = "retention_gap"
    OFFSET_GAP = "offset_gap"


# Those that are a flag of one request, in the order of their columns.
REQUEST_FINDINGS = (
    Finding.LOST,
    Finding.FORGOTTEN,
    Finding.OVERDUE,
    Finding.RAN_TWICE,
    Finding.IN_DOUBT,
    Finding.STUCK,
    Finding.ORPHAN,
    Finding.PAYLOAD_MISMATCH,
    Finding.RESENT,
    Finding.FAILED_WITHOUT_DEAD_LETTER,
    Finding.DEAD_LETTER_WITHOUT_FAILURE,
    Finding.MALFORMED,
    Finding.LATE,
)

# An effect that may have happened twice, one of which nobody knows, or one that has not happened.
AT_RISK = (
    Finding.RAN_TWICE,
    Finding.LOST,
    Finding.IN_DOUBT,
    Finding.FORGOTTEN,
    Finding.OVERDUE,
    Finding.STUCK,
)
# The findings that need a person, the most urgent first: money at risk, records that nobody saw,
# accounts that disagree.
URGENT = (
    *AT_RISK,
    Finding.RETENTION_GAP,
    Finding.OFFSET_GAP,
    Finding.STATUS_DISAGREES,
    Finding.FAILED_WITHOUT_DEAD_LETTER,
    Finding.PAYLOAD_MISMATCH,
    Finding.ORPHAN,
    Finding.DEAD_LETTER_WITHOUT_FAILURE,
    Finding.MALFORMED,
)
# Found on good days as well: nobody has to do anything.
ORDINARY = (Finding.LATE, Finding.RESENT)
