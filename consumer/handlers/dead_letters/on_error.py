"""What an error of a handler of dead letters means."""

from __future__ import annotations

from enum import StrEnum


class OnError(StrEnum):
    """FAIL: the letter has FAILED, and is counted. RETRY: it runs again, later and without end."""

    FAIL = "fail"
    RETRY = "retry"
