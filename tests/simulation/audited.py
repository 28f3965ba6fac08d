"""The audit of what the journal holds in the end: who is accused of having run twice, who is not.

The audit knows only the tables. It may accuse a request of which two runs may have had their
effect, for all that anybody knows who did not see them; and it must, where both have had it and the
tables tell of both. A run of which a database that forgets has kept nothing, and whose worker is
gone, is in no table: nobody can name it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tests.simulation.processes import Violation
from tests.spark_audit.judge.effects import NOTHING, effect_runs

if TYPE_CHECKING:
    from tests.simulation.pool import SimulatedRun
    from tests.simulation.world import World

Facts = Mapping[str, Any]


def check_audit(world: World) -> None:
    """Judge every request that has a row, also those of which nothing else is expected.

    Raises:
        Violation: one is accused that ran once, or one is not that ran twice.
    """
    for request_id, row in world.database.rows.items():
        history = [one._asdict() for one in world.database.history if one.request_id == request_id]
        runs = world.watch.runs_of(request_id)
        is_accused = effect_runs(row._asdict(), history) > 1
        charges = world.bank.charges[request_id]
        if is_accused and charges <= 1 and _may_have_acted(runs) <= 1:
            said = f"{request_id} is said to have run twice, and has {charges} charges"
            raise Violation("the audit accuses nobody who ran once", said)
        told = set(_told(row._asdict(), history))
        known = [one for one in runs if one.has_charged and _name(one) in told]
        if not is_accused and charges > 1 and len(known) > 1:
            said = f"{request_id} has {charges} charges, and the tables tell of them"
            raise Violation("the audit names who ran twice", said)


def _may_have_acted(runs: Sequence[SimulatedRun]) -> int:
    """Return how many effects there may be; those under one key are one."""
    acted = (one for one in runs if one.may_have_acted)
    return len({one.key if one.is_idempotent else one for one in acted})


def _name(run: SimulatedRun) -> tuple[int, str]:
    return run.job.generation, run.worker_id


def _told(row: Facts, history: Sequence[Facts]) -> Iterator[tuple[int, str]]:
    """Yield the runs that may have had their effect by what the tables say of it."""
    ends = [(row, row["state"]), *((one, one["outcome"]) for one in history)]
    for one, end in ends:
        if end == "SUCCEEDED" or (end not in NOTHING and one["effect_at"] is not None):
            yield one["generation"], one["owner"]
