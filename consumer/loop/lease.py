"""What the worker's loop has to know of its lease."""

from __future__ import annotations

from typing import Protocol


class Lease(Protocol):
    """What the loop asks before it lets anything start."""

    def lease_holds(self, now_s: float) -> bool: ...
    def may_sweep(self, now_s: float) -> bool: ...
    def unbroken_since_s(self, now_s: float) -> float | None: ...
