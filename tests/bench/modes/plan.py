"""What is to be measured, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.bench.modes.arm import Arm
from tests.bench.modes.mode import Mode, ceiling_tps

PROCESSES = 2
SPARE = 1.1


@dataclass(frozen=True, slots=True)
class Case:
    """One mode in one arm with `n` requests at a time, for `load_s` seconds.

    Attributes:
        prefetch: how many claimed requests wait in each process, beside those that run.
    """

    mode: Mode
    arm: Arm
    n: int
    load_s: float
    prefetch: int

    @property
    def ceiling_tps(self) -> float:
        """Calls a second if only the counterparty took time."""
        return ceiling_tps(self.mode, self.arm.delays, self.n)

    @property
    def slots_per_process(self) -> int:
        """How many of the `n` each process runs."""
        return self.n // PROCESSES

    @property
    def records(self) -> int:
        """How many records the topic has to hold so that it never runs dry.

        Until the first slow ones have ended, all slots may have had usual ones.
        """
        delays = self.arm.delays
        first_s = min(self.load_s, delays.slow_s)
        answered = self.load_s * self.ceiling_tps + first_s * self.n / delays.usual_s
        return round(SPARE * answered) + 10 * self.n

    def __str__(self) -> str:
        return f"{self.mode}, N = {self.n}, {self.arm}"


@dataclass(frozen=True, slots=True)
class Plan:
    """All of one run.

    Attributes:
        sizes: the N; None takes what belongs to the arm.
        seconds: of load; None takes what belongs to the arm.
        prefetch: of each process; None takes as many as it has slots.
        journal: `sqlite` or `postgres`.

    Raises:
        ValueError: an N cannot be shared out to the processes.
    """

    modes: tuple[Mode, ...]
    arms: tuple[Arm, ...]
    sizes: tuple[int, ...] | None = None
    seconds: float | None = None
    prefetch: int | None = None
    rounds: int = 1
    journal: str = "sqlite"

    def __post_init__(self) -> None:
        for n in self.sizes or ():
            if n < 1 or n % PROCESSES:
                raise ValueError(f"N is shared by {PROCESSES} processes: {n} is not a multiple")

    def cases(self) -> Iterator[Case]:
        """Yield the cases of one round; the modes of the same arm and N follow each other."""
        for arm in self.arms:
            for n in self.sizes or arm.sizes:
                load_s = self.seconds or arm.load_s
                prefetch = n // PROCESSES if self.prefetch is None else self.prefetch
                for mode in self.modes:
                    yield Case(mode, arm, n, load_s, prefetch)
