"""A row of the table: a fault, what it is done to, and what must hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tests.chaos.account import Forgotten
from tests.chaos.figure import Figure
from tests.chaos.orders import Deed

if TYPE_CHECKING:
    from tests.chaos.scene import Scene


class JournalKind(StrEnum):
    """Where the journal of a row is."""

    SQLITE = "sqlite"
    POSTGRES = "postgres"


class Own(StrEnum):
    """A server that a row has for itself, since it hurts it.

    REDIS comes back empty when it was killed, or as it was last saved; KEPT_REDIS with all that it
    had answered. REPLICATED is a PostgreSQL with a standby that may lag.
    """

    REDIS = "redis"
    KEPT_REDIS = "redis that keeps its data"
    POSTGRES = "postgres of its own"
    REPLICATED = "postgres with a standby"
    KAFKA = "kafka"
    CLUSTER = "three brokers"
    LINKS = "links"


# For a load that need not be large: one child starts faster than two.
LIGHT: Mapping[str, Mapping[str, Any]] = MappingProxyType({"worker": {"processes": 1}})

Act = Callable[["Scene"], Sequence[Figure]]


@dataclass(frozen=True, slots=True)
class Row:
    """One fault.

    Attributes:
        fault: its name on the command line.
        what: one sentence.
        act: starts workers and load, does the fault, returns the row's own figures.
        own: servers of its own.
        settings: over those that all rows share, by section.
        tell_within_s: a client without a final status so long after the load ended never got one.
        settle_s: statuses that are not the journal's so long after that stay wrong; a sweep repairs
            them, a lease after whatever went wrong.
        time_limit_s: of one run of a handler.
        troubles: which share of the orders makes its handler misbehave, and how.
        postgres: settings of its own PostgreSQL.
        forgotten: what may be missing at the end, of what was told.
        workers_end: a worker may end by itself.
    """

    fault: str
    what: str
    journal: JournalKind
    act: Act
    own: frozenset[Own] = frozenset()
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: MappingProxyType({}))
    tell_within_s: float = 60.0
    settle_s: float = 15.0
    time_limit_s: float = 30.0
    troubles: Mapping[Deed, float] = field(default_factory=lambda: MappingProxyType({}))
    postgres: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    forgotten: Forgotten = Forgotten.NOTHING
    workers_end: bool = False
