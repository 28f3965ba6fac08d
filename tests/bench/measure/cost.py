"""What a case cost: two readings of all clocks, and their difference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import psutil

from feedback.clock import monotonic_s
from tests.bench.measure.processes import machine_busy_s

Meters = Mapping[str, Callable[[], float]]


@dataclass(frozen=True, slots=True)
class Reading:
    """All clocks at one moment, in seconds.

    Attributes:
        parts: CPU of each part of the system under test.
        beside: CPU of what is ours and no part of it: idle servers, the bench itself.
        busy_s: CPU of the whole machine.
    """

    at_s: float
    parts: Mapping[str, float]
    beside: float
    busy_s: float

    @classmethod
    def take(cls, parts: Meters, beside: Meters) -> Reading:
        """Read all clocks now."""
        return cls(
            at_s=monotonic_s(),
            parts={name: meter() for name, meter in parts.items()},
            beside=sum(meter() for meter in beside.values()),
            busy_s=machine_busy_s(),
        )


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds of each part between two readings, and the share of the machine others took."""

    cpu_s: Mapping[str, float]
    other_cpu_percent: float

    def per_1000(self, requests: int) -> dict[str, float]:
        """Return the CPU seconds of each part for 1,000 requests."""
        return {name: seconds * 1000 / requests for name, seconds in self.cpu_s.items()}


def cost(before: Reading, after: Reading, *, cores: int | None = None) -> Cost:
    """Return what happened between two readings.

    Args:
        cores: cores of the machine; None asks it.
    """
    spent = {name: seconds - before.parts[name] for name, seconds in after.parts.items()}
    ours_s = sum(spent.values()) + after.beside - before.beside
    whole_s = (after.at_s - before.at_s) * (cores or psutil.cpu_count() or 1)
    others_s = max(0.0, after.busy_s - before.busy_s - ours_s)
    return Cost(cpu_s=spent, other_cpu_percent=100 * others_s / whole_s)
