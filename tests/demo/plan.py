"""Which worker dies, and when: decided by the seed, so that a run can be repeated. Pure."""

from dataclasses import dataclass
from random import Random

WORKERS = 2
EARLIEST, LATEST = 0.35, 0.45
CUT_AT = 0.3


@dataclass(frozen=True, slots=True)
class Plan:
    """The kills of one run.

    Attributes:
        payments: how many there are in all.
        kill_every_s: seconds between kills while payments are being sent; None for a single kill.
    """

    payments: int
    seed: int
    kill_every_s: float | None = None

    @property
    def first_at(self) -> int:
        """The first kill comes when this many payments have their end: some 40 % of all."""
        return int(self.payments * Random(f"{self.seed} when").uniform(EARLIEST, LATEST))

    def victim(self, number: int) -> int:
        """Return which worker dies in kill `number`; both count from 0."""
        return Random(f"{self.seed} whom {number}").randrange(WORKERS)

    def is_due(self, *, kills: int, told: int, sending: bool, since_last_s: float) -> bool:
        """Say whether the next kill is due.

        Args:
            kills: how many there were.
            told: how many payments have their end.
            sending: whether payments are still being sent.
            since_last_s: seconds since the last kill.
        """
        if kills == 0:
            return told >= self.first_at
        if self.kill_every_s is None or not sending:
            return False
        return since_last_s >= self.kill_every_s

    def is_cut_due(self, *, begun: int) -> bool:
        """Say whether Kafka is to be taken away, if it is at all: before any worker is killed,
        since one that is started without Kafka ends.

        Args:
            begun: how many payments clients have begun to send.
        """
        return begun >= self.payments * CUT_AT
