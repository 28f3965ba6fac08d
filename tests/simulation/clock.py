"""Time in the simulated world: one true time, and what each host's clocks make of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import feedback.clock

START_MS = 1_790_000_000_000
_ROOMS = ("consumer.", "feedback.", "producer_client.", "tests.simulation.")


@dataclass(slots=True)
class Face:
    """The two clocks of a host.

    Args:
        skew_ms: how far its wall clock is off.
        boot_ms: the true time at which its monotonic clock was 0.
    """

    skew_ms: int = 0
    boot_ms: int = START_MS - 1_000_000


class Clock:
    """The true time, and the host that looks at a clock now."""

    def __init__(self) -> None:
        self.true_ms = START_MS
        self.face = Face()

    def epoch_ms(self) -> int:
        """Return what the wall clock of the host says that runs now."""
        return self.true_ms + self.face.skew_ms

    def monotonic_s(self) -> float:
        """Return what its other clock says."""
        return (self.true_ms - self.face.boot_ms) / 1000

    @property
    def elapsed_s(self) -> float:
        """Seconds of true time since the beginning."""
        return (self.true_ms - START_MS) / 1000


class _Shown:
    """Which world's clock the product's modules see."""

    clock = Clock()


def _epoch_ms() -> int:
    return _Shown.clock.epoch_ms()


def _monotonic_s() -> float:
    return _Shown.clock.monotonic_s()


def show(clock: Clock) -> None:
    """Let the product's modules see this clock, inside `simulated_time`."""
    _Shown.clock = clock


@contextmanager
def simulated_time() -> Iterator[None]:
    """Let every loaded module of the product, and of this package, see the simulated clock."""
    stand_ins = {
        "epoch_ms": (feedback.clock.epoch_ms, _epoch_ms),
        "monotonic_s": (feedback.clock.monotonic_s, _monotonic_s),
    }
    changed = []
    for module in list(sys.modules.values()):
        if not module.__name__.startswith(_ROOMS):
            continue
        for name, (real, stand_in) in stand_ins.items():
            if vars(module).get(name) is real:
                setattr(module, name, stand_in)
                changed.append((module, name, real))
    try:
        yield
    finally:
        for module, name, real in changed:
            setattr(module, name, real)
