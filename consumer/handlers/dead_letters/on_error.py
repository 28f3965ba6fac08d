"""The meaning of an error in a handler of dead letters."""

from __future__ import annotations

from enum import StrEnum


class OnError(StrEnum):
    """FAIL: the letter has FAILED, and is counted. RETRY: it runs again, later and without end."""

    FAIL = "fail"
    RETRY = "retry"
