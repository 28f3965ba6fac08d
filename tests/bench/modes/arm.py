"""The arms of the comparison: how long the counterparty takes, and for which records."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

USUAL_S = 0.2


@dataclass(frozen=True, slots=True)
class Delays:
    """How long the counterparty takes: one record of each `cycle` is slow, the others are usual.

    Attributes:
        cycle: `additionalData` of a record is its counter modulo this; 0 is slow.
        slow_s, usual_s: seconds.
    """

    cycle: int
    slow_s: float
    usual_s: float = USUAL_S

    def of(self, counter: int) -> float:
        """Return how long the record with this counter takes, in seconds.

        >>> [Delays(cycle=10, slow_s=1.0).of(counter) for counter in (0, 1, 10)]
        [1.0, 0.2, 1.0]
        """
        return self.slow_s if counter % self.cycle == 0 else self.usual_s

    @property
    def mean_s(self) -> float:
        """The mean over a cycle, in seconds."""
        return (self.slow_s + (self.cycle - 1) * self.usual_s) / self.cycle


class Arm(StrEnum):
    """What is varied beside mode and N, by the names of `--arms` and of the rows."""

    SLOW = "slow"
    CONTROL = "control"
    ONE_PERCENT_60S = "one_percent_60s"

    @property
    def delays(self) -> Delays:
        """How long the counterparty takes in this arm."""
        return _DELAYS[self]

    @property
    def load_s(self) -> float:
        """How long the load lasts unless something else is asked for, in seconds."""
        return 600.0 if self is Arm.ONE_PERCENT_60S else 60.0

    @property
    def sizes(self) -> tuple[int, ...]:
        """The N to be measured unless something else is asked for."""
        return (50,) if self is Arm.ONE_PERCENT_60S else (10, 50)


_DELAYS = {
    Arm.SLOW: Delays(cycle=10, slow_s=1.0),
    Arm.CONTROL: Delays(cycle=10, slow_s=USUAL_S),
    Arm.ONE_PERCENT_60S: Delays(cycle=100, slow_s=60.0),
}
