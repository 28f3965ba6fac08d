"""What is to be measured: systems, cases, rounds, and the sizes that all of them share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

TOPIC_VARIABLE = "BENCH_TOPIC"
PAYLOAD_BYTES = 1024
PARTITIONS = 8
PROCESSES = 2
SLOTS_PER_PROCESS = 32
BUFFER_LIMIT = 256
PREFETCH = 0
RATE_SECONDS = 10.0
WARM_UP_LIMIT = 2_000


class System(StrEnum):
    """What can be measured, by the names of `--only`."""

    SQLITE_KAFKA_PYTHON = "onceward-sqlite-kafka-python"
    SQLITE_CONFLUENT = "onceward-sqlite-confluent"
    POSTGRES_KAFKA_PYTHON = "onceward-postgres-kafka-python"
    POSTGRES_CONFLUENT = "onceward-postgres-confluent"
    CELERY = "celery"
    DRAMATIQ = "dramatiq"
    FASTSTREAM = "faststream"

    @property
    def product(self) -> str:
        """`onceward`, or the name of a peer, as in the rows."""
        return self.value.partition("-")[0]

    @property
    def journal(self) -> str | None:
        """`sqlite`, `postgres`, or None for what has no journal."""
        return self.value.split("-", 2)[1] if self.is_ours else None

    @property
    def engine(self) -> str | None:
        """Our library for Kafka, `kafka-python` or `confluent`; None for a peer."""
        return self.value.split("-", 2)[2] if self.is_ours else None

    @property
    def is_ours(self) -> bool:
        """Whether it is Onceward."""
        return self.product == "onceward"

    @property
    def burst(self) -> int:
        """Requests of a burst, some 5 s of work for each."""
        return PEER_BURSTS.get(self, 20_000)


PEER_BURSTS = {System.CELERY: 3_000, System.DRAMATIQ: 8_000, System.FASTSTREAM: 3_000}
# Celery alone stands beside us where nobody asks for the others, which have to be installed.
WITHOUT_BEING_ASKED = (*(one for one in System if one.is_ours), System.CELERY)


@dataclass(frozen=True, slots=True)
class Case:
    """A burst (`rate_per_s` is None), or an open loop of `rate_per_s` requests a second."""

    rate_per_s: int | None = None

    @classmethod
    def named(cls, name: str) -> Self:
        """Return the case of a name.

        >>> Case.named("rate-50").rate_per_s
        50

        Raises:
            ValueError: it is neither `burst` nor `rate-<number>`.
        """
        head, _, rate = name.partition("-")
        if name == "burst":
            return cls()
        if head == "rate" and rate.isdecimal() and int(rate) > 0:
            return cls(int(rate))
        raise ValueError(f"{name}: a case is burst or rate-<requests per second>")

    @property
    def name(self) -> str:
        """The name in rows and options."""
        return "burst" if self.rate_per_s is None else f"rate-{self.rate_per_s}"


@dataclass(frozen=True, slots=True)
class Plan:
    """All of one run; `burst` overrides the number of requests of every system's burst."""

    systems: tuple[System, ...] = WITHOUT_BEING_ASKED
    cases: tuple[Case, ...] = (Case(), Case(50), Case(200))
    rounds: int = 3
    burst: int | None = None
    rate_seconds: float = RATE_SECONDS
    profile: bool = False

    def burst_of(self, system: System) -> int:
        """Return how many requests the system's burst has."""
        return self.burst or system.burst

    def warm_up_of(self, system: System) -> int:
        """Return how many requests go before the first case: a tenth of a burst, at most 2,000."""
        return max(1, min(WARM_UP_LIMIT, self.burst_of(system) // 10))


def turned(systems: Sequence[System], round_number: int) -> tuple[System, ...]:
    """Return the order of a round: each round begins with the next system.

    >>> turned((System.CELERY, System.DRAMATIQ), 2)[0].value
    'dramatiq'
    """
    first = (round_number - 1) % len(systems)
    return (*systems[first:], *systems[:first])
