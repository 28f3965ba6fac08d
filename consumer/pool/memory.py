"""How much memory children use, and when one is retired or killed for it."""

from __future__ import annotations

import math
from enum import StrEnum

LOOK_EVERY_S = 1.0

_RUNAWAY = 2
_MIB = 2**20


class MemoryVerdict(StrEnum):
    """The verdict on a child: KEEP it, RETIRE it after its jobs, or KILL it at once."""

    KEEP = "KEEP"
    RETIRE = "RETIRE"
    KILL = "KILL"


def memory_verdict(used_bytes: int, limit_bytes: int, *, can_wait: bool) -> MemoryVerdict:
    """Return the verdict on a child with this much resident memory.

    Args:
        can_wait: it holds nothing, so that retiring ends it at once. One that is busy, or cannot
            even take work yet, is killed above twice the limit: better one child than the host.
    """
    if used_bytes <= limit_bytes:
        return MemoryVerdict.KEEP
    if used_bytes > _RUNAWAY * limit_bytes and not can_wait:
        return MemoryVerdict.KILL
    return MemoryVerdict.RETIRE


def limit_words(used_bytes: int, limit_bytes: int) -> str:
    """Return why a child is replaced.

    >>> limit_words(300 * 2**20, 256 * 2**20)
    'over its memory limit: 300 MiB of 256 MiB'
    """
    return f"over its memory limit: {used_bytes / _MIB:.0f} MiB of {limit_bytes / _MIB:.0f} MiB"


class MemoryGauge:
    """Reads the memory of children, if there is a limit.

    Args:
        limit_bytes: None when there is none; then `due_s` never comes.

    Attributes:
        due_s: monotonic time of the next look.
    """

    def __init__(self, limit_bytes: int | None) -> None:
        self.limit_bytes = limit_bytes or 0
        self.due_s = math.inf if limit_bytes is None else 0.0

    def used_bytes(self, pid: int) -> int:
        """Return the resident memory of a process, 0 when it is gone."""
        import psutil  # children import this module too, and must stay small

        try:
            return int(psutil.Process(pid).memory_info().rss)
        except psutil.Error:
            return 0
