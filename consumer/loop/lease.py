"""The loop's view of the worker's lease."""

from __future__ import annotations

from typing import Protocol


class Lease(Protocol):
    """The questions of the loop before it lets a run start."""

    def lease_holds(self, now_s: float) -> bool: ...
    def may_sweep(self, now_s: float) -> bool: ...
    def unbroken_since_s(self, now_s: float) -> float | None: ...
