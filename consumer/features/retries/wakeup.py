"""A run that is to follow one that failed: the content of its record in a retry topic."""

from __future__ import annotations

from typing import NamedTuple

from consumer.handlers.delivery import Delivery


class WakeUp(NamedTuple):
    """One request that waits for its next run; its RETRYING row is committed.

    Attributes:
        delivery: the request that runs again.
        generation: of the run that failed, and of the row.
        due_at: epoch ms of the next run, by the journal's clock.
        delay_ms: from the failure to that.
        code, message: why it failed.
        runs: how many runs of this attempt there were.
        first_failed_at, failed_at: epoch ms of the first failure and of this one.
    """

    delivery: Delivery
    generation: int
    due_at: int
    delay_ms: int
    code: str | None
    message: str | None
    runs: int
    first_failed_at: int
    failed_at: int
