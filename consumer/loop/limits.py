"""How much the loop does at a time, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The loop's numbers.

    Args:
        slots: how many handlers run at the same time.
        journal_wait_s: how long a buffered request waits for an absent journal.
        looks_every_s: how often the journal is asked whether it knows the runs of this worker.
        remembered_bytes: how much is remembered of the runs that ended here, about; 0 is nothing.
    """

    slots: int
    journal_wait_s: float = 30.0
    looks_every_s: float = 5.0
    remembered_bytes: int = 16 * 1024 * 1024
