"""A judged request as it is written down for people."""

from __future__ import annotations

from typing import NamedTuple

# How many of each finding the page shows.
SHOWN = 200


class FindingRow(NamedTuple):
    """A judged request; the fields are columns of the judged Parquet."""

    request_id: str
    topic: str | None
    partition: int | None
    offset: int | None
    first_at: int | None
    state: str | None
    code: str | None
    attempt: int | None
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
