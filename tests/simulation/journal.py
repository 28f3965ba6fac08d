"""The journal of one process: the surfaces of `Journal`, `Leases` and `Transactions`."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from consumer.journal import (
    Applied,
    DeadEnd,
    FarLease,
    Finish,
    JournalUnavailable,
    LeaseTimes,
    Row,
    ToldRun,
    UnhandledRequest,
    Work,
)
from consumer.journal.losses.republish import EndingsPage, RestoreCursor, WhoseTurn
from consumer.journal.pacing import EVER_MS
from feedback.status import State
from tests.simulation.processes import Process

if TYPE_CHECKING:
    from tests.simulation.world import World

Found = TypeVar("Found")
Name = tuple[str, int]


class SimulatedJournal:
    """What a worker's loop and its sweeper speak to.

    Args:
        link: `journal` or `sweeps`: each has a connection of its own, which faults hit apart.
    """

    def __init__(self, world: World, process: Process, worker_id: str, *, link: str) -> None:
        self._world = world
        self._process = process
        self._worker_id = worker_id
        self._link = link

    def _call(self, what: str, action: Callable[[], Found]) -> Found:
        return self._world.call(self._process, self._link, what, action, JournalUnavailable)

    def apply(
        self, work: Work, *, held: Collection[Name] = (), tried: Collection[str] = ()
    ) -> Applied:
        """Commit everything in one transaction."""
        # Copied when it is sent: what the loop does with its own lists later is not part of it.
        kinds = {kind.name: tuple(getattr(work, kind.name)) for kind in fields(work)}
        sent, held, tried = Work(**kinds), tuple(held), tuple(tried)
        said = [_said(name, items) for name, items in kinds.items() if items]
        if not said:
            return Applied((), frozenset(), {}, ())

        def apply() -> Applied:
            database, finishes = self._world.database, sent.finishes
            before = {
                one.request_id: database.rows[one.request_id].generation
                for one in finishes
                if one.request_id in database.rows
            }
            applied = database.apply(self._worker_id, sent, held=held, tried=tried)
            self._world.watch.caught_up(applied.restored)
            self._world.watch.applied(self._worker_id, applied, finishes, before)
            return applied

        only_published = len(sent.published) and len(said) == 1
        return self._call(f"{'~' * bool(only_published)}writes {', '.join(said)}", apply)

    def unhandled(
        self, topics: Collection[str], limit: int, late_ms: int
    ) -> list[UnhandledRequest]:
        """Return what nobody has a handler for."""
        return self._call(
            "~looks for what has no handler",
            lambda: self._world.database.unhandled(self._worker_id, topics, limit, late_ms),
        )

    def far_leases(self, ahead_ms: int) -> list[FarLease]:
        """Return leases that end later than they can."""
        return self._call("~looks at leases", lambda: self._world.database.far_leases(ahead_ms))

    def end_leases(self, leases: Sequence[FarLease]) -> int:
        """End leases."""
        return self._call("ends leases", lambda: self._world.database.end_leases(leases))

    def end_retries(self, rows: Sequence[Row]) -> list[Row]:
        """End what waits for a next run that it will not have."""
        return self._call(
            "ends retries", lambda: self._world.database.end_retries(self._worker_id, rows)
        )

    def own_claims(self) -> list[Row]:
        """Return what this worker has claimed and not finished."""
        return self._call(
            "~looks for its own claims",
            lambda: self._world.database.own_claims(self._worker_id),
        )

    def disown(self, runs: Sequence[tuple[str, int]]) -> None:
        """Leave claims to a sweep."""
        self._call(f"disowns {runs}", lambda: self._world.database.disown(self._worker_id, runs))

    def mark_unbegun(self, runs: Sequence[tuple[str, int]]) -> None:
        """Leave claims of runs that never began to a sweep."""
        self._call(
            f"marks {runs} as never begun",
            lambda: self._world.database.mark_unbegun(self._worker_id, runs),
        )

    def rows(self, request_ids: Collection[str]) -> list[Row]:
        """Return the rows of these requests."""
        return self._call(
            "~reads rows",
            lambda: [one for name, one in self._world.database.rows.items() if name in request_ids],
        )

    def catch_up(self, runs: Sequence[ToldRun]) -> list[Row]:
        """Bring rows forward that are behind what clients were told."""

        def catch_up() -> list[Row]:
            caught_up = self._world.database.catch_up(self._worker_id, runs)
            self._world.watch.caught_up(caught_up)
            return caught_up

        return self._call(f"catches up with {_said('told_runs', runs)}", catch_up)

    def find_open_requests(self) -> None:
        """Do nothing: this database forgets no open requests but with their rows."""

    def sweep_is_due(self, every_ms: int) -> bool:
        """Whether this worker is the one to sweep now."""
        return self._call(
            "~asks for its turn", lambda: self._world.database.take_turn("sweep", every_ms)
        )

    def dead_claims(
        self, topics: Collection[str], limit: int, *, after: tuple[str, str]
    ) -> list[Row]:
        """Return claims whose owner has no live lease."""
        return self._call(
            "~looks for the dead",
            lambda: self._world.database.dead_claims(self._worker_id, topics, limit, after),
        )

    def end_dead_claims(self, ends: Sequence[DeadEnd]) -> list[Row]:
        """End claims of dead workers."""
        return self._call(
            "ends claims of the dead",
            lambda: self._world.database.end_dead(self._worker_id, ends),
        )

    def unpublished(
        self,
        limit: int,
        older_than_ms: int,
        *,
        within_ms: int = EVER_MS,
        after: tuple[int, str] = (0, ""),
    ) -> list[Row]:
        """Return rows whose state no status was confirmed for; few, so one page."""
        return self._call(
            "~looks for what was not told",
            lambda: self._world.database.unpublished(limit, older_than_ms, within_ms),
        )


class SimulatedRepublication:
    """Whose turn it is to tell endings again, and which they are; few, so one page."""

    def __init__(self, world: World, process: Process, worker_id: str) -> None:
        self._world = world
        self._process = process
        self._worker_id = worker_id

    def _call(self, what: str, action: Callable[[], Found]) -> Found:
        return self._world.call(self._process, "republishes", what, action, JournalUnavailable)

    def take_turn(self, run_id: str) -> WhoseTurn:
        """Return whose turn it is."""
        return self._call(
            f"~asks whether to serve {run_id}",
            lambda: self._world.database.take_republication(self._worker_id, run_id),
        )

    def end_turn(self, run_id: str | None) -> bool:
        """Give the turn back."""
        return self._call(
            f"~has served {run_id}",
            lambda: self._world.database.end_republication(self._worker_id, run_id),
        )

    def page(
        self, cursor: RestoreCursor, *, ttl_ms: Mapping[State, int], limit: int
    ) -> EndingsPage:
        """Return the endings."""
        return self._call(
            "~reads endings", lambda: EndingsPage(self._world.database.endings(), None)
        )

    def close(self) -> None:
        """Close nothing."""


class SimulatedLeases:
    """A worker's lease."""

    def __init__(self, world: World, process: Process, worker_id: str) -> None:
        self._world = world
        self._process = process
        self._worker_id = worker_id

    def _call(self, what: str, action: Callable[[], Found]) -> Found:
        return self._world.call(self._process, "leases", what, action, JournalUnavailable)

    def register(self, lease_s: float) -> LeaseTimes:
        """Begin the lease, or take it up again."""
        lease_ms = math.ceil(lease_s * 1000)
        until = self._call(
            "~takes a lease", lambda: self._world.database.register(self._worker_id, lease_ms)
        )
        return LeaseTimes(until - lease_ms, until)

    def renew(self, lease_s: float) -> LeaseTimes | None:
        """Extend the lease; None when its row is gone."""
        lease_ms = math.ceil(lease_s * 1000)
        until = self._call(
            "~renews its lease", lambda: self._world.database.renew(self._worker_id, lease_ms)
        )
        return None if until is None else LeaseTimes(until - lease_ms, until)

    def is_first_worker(self) -> bool:
        """Whether no worker has told a heartbeat before."""
        return self._call("~asks for earlier workers", lambda: len(self._world.processes) == 1)

    def timeline(self) -> int | None:
        """Return that there is none: nothing is failed over here."""
        return None

    def release(self) -> None:
        """End the lease."""
        self._call("gives its lease back", lambda: self._world.database.release(self._worker_id))

    def close(self) -> None:
        """Close nothing."""


class SimulatedTransactions:
    """What a transactional run finishes with; its effect is a write in the same transaction.

    Args:
        process: the worker whose child it is; its faults are those of the link `children`.
    """

    def __init__(self, world: World, process: Process, worker_id: str) -> None:
        self._world = world
        self._process = process
        self._worker_id = worker_id

    connection = None

    @contextmanager
    def begin(self) -> Iterator[SimulatedTransactions]:
        """Yield a transaction."""
        yield self

    def finish(self, request_id: str, generation: int, **end: Any) -> bool:
        """Commit the effect with the finish; False when the claim is gone."""
        one = Finish(request_id, generation, **end)

        def commit() -> bool:
            return self._world.database.finish_in_child(
                self._worker_id, one, lambda: self._world.bank.count_inside(request_id)
            )

        return self._world.call(
            self._process,
            "children",
            f"commits {request_id} with its effect",
            commit,
            JournalUnavailable,
        )


def _said(name: str, items: Sequence[Any]) -> str:
    names = " ".join(
        f"{one.request_id}/{one.generation}" if hasattr(one, "generation") else one.request_id
        for one in items
    )
    return f"{name} {names}"
