"""The steps of a schedule: what each does, and whether it can be done now. Here: all that works."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from consumer.journal import JournalState
from tests.simulation.worker_process import WorkerProcess
from tests.simulation.world import World


class Step(NamedTuple):
    """One step; numbers say of whom and how, so that a schedule can be cut and still be run.

    Args:
        who: the place of a worker, or the number of a client.
    """

    verb: str
    who: int = 0
    a: int = 0
    b: int = 0
    c: int = 0


@dataclass(frozen=True, slots=True)
class Verb:
    """What a step does.

    Args:
        can: whether it makes sense now.
        do: does it.
        is_fault: whether it is one, which ends when all is to become quiet.
    """

    can: Callable[[World, Step], bool]
    do: Callable[[World, Step], None]
    is_fault: bool = False


def worker_at(world: World, step: Step) -> WorkerProcess | None:
    return world.slots[step.who % len(world.slots)]


def _of_worker(thread: str, wants: Callable[[World, WorkerProcess], bool], act: str) -> Verb:
    """Return the verb of one of a worker's threads.

    Args:
        wants: whether it has something to do.
        act: the method that does it.
    """

    def can(world: World, step: Step) -> bool:
        one = worker_at(world, step)
        return one is not None and one.may_run(thread) and wants(world, one)

    def do(world: World, step: Step) -> None:
        one = worker_at(world, step)
        if one is not None:
            world.run(one, thread, getattr(one, act))

    return Verb(can, do)


def _loop_wants(world: World, one: WorkerProcess) -> bool:
    held = one.worker._in_flight
    busy = one.pool.has_news or len(one.scheduler) or not one.worker.idle
    revived, published = one.worker._selection.revived, one.worker._writing.published
    goes_on = held.continuing or held.effects or revived or one.worker.journal_away
    is_owed = bool(world.losses.forgotten) and _has_lost_runs(world, one)
    return bool(busy or goes_on or one.status_writer.told_count or published or is_owed)


def _has_lost_runs(world: World, one: WorkerProcess) -> bool:
    """Whether the journal and a worker do not say the same of its runs."""
    rows = world.database.rows
    claimed = {
        row.request_id
        for row in rows.values()
        if row.owner == one.name and row.state == JournalState.CLAIMED
    }
    running = {name for name, _ in one.worker._in_flight.running}
    return claimed != running


def _intake_wants(world: World, one: WorkerProcess) -> bool:
    kafka = world.kafka
    return not one.leaving and any(
        owner == one.name and kafka.has_unread(partition)
        for partition, owner in kafka.owners.items()
    )


def _teller_wants(world: World, one: WorkerProcess) -> bool:
    return bool(one.status_writer._untold or one.status_writer._untold._running)


def _sweeper_wants(world: World, one: WorkerProcess) -> bool:
    return any(
        row.state == JournalState.CLAIMED or row.published_at is None
        for row in world.database.rows.values()
    )


def _republisher_wants(world: World, one: WorkerProcess) -> bool:
    return one.republisher._heard != one.republisher._served


def _can_child(world: World, step: Step) -> bool:
    one = worker_at(world, step)
    if one is None or one.host_stops:
        return False
    child = step.a % len(one.pool.children)
    return f"child {child}" not in one.busy and one.pool.can_step(child)


def _do_child(world: World, step: Step) -> None:
    one = worker_at(world, step)
    if one is not None:
        child = step.a % len(one.pool.children)
        world.run(one, f"child {child}", lambda: one.pool.step(child, step.b))


def _can_client(world: World, step: Step) -> bool:
    client = world.clients[step.who % len(world.clients)]
    return client.may_run("client") and (not client.sent or client.plan.waits)


def _do_client(world: World, step: Step) -> None:
    client = world.clients[step.who % len(world.clients)]
    world.run(client, "client", client.look if client.sent else client.submit)


def _can_resender(world: World, step: Step) -> bool:
    return world.resender.may_run("resender") and bool(world.redis.deadlines)


def _do_resender(world: World, step: Step) -> None:
    world.run(world.resender, "resender", world.resender.look)


def always(world: World, step: Step) -> bool:
    return True


def _can_start(world: World, step: Step) -> bool:
    return worker_at(world, step) is None and len(world.processes) < 8


WORK = {
    "loop": _of_worker("loop", _loop_wants, "loop"),
    "intake": _of_worker("intake", _intake_wants, "take_in"),
    "status_writer": _of_worker("status_writer", _teller_wants, "tell"),
    "sweep": _of_worker("sweeper", _sweeper_wants, "sweep"),
    "republish": _of_worker("republisher", _republisher_wants, "republish"),
    "child": Verb(_can_child, _do_child),
    "client": Verb(_can_client, _do_client),
    "resender": Verb(_can_resender, _do_resender),
    "time": Verb(always, lambda world, step: world.pass_time(step.a)),
    "start": Verb(_can_start, lambda world, step: world.start_worker(step.who % len(world.slots))),
}
