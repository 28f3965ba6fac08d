"""The steps of a schedule: what each does, and whether it can be done now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from consumer.journal import State
from tests.simulation.processes import Fault, FaultKind
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


# A commit is where a worker begins to answer for a request, so it is hit twice as often.
LINKS = (
    "journal",
    "sweeps",
    "leases",
    "republishes",
    "children",
    "redis",
    "commits",
    "commits",
    "pool",
)
SENDER_LINKS = ("redis", "kafka")
KINDS = tuple(FaultKind)
# A pool is in the same process: nothing can be lost on the way to it.
POOL_KINDS = tuple(kind for kind in FaultKind if kind.name.startswith(("CRASH", "STALL")))
# Longer than a lease and a session: half of the stops and outages last so long at least.
LONG_MS = 6_500
SERVERS = ("journal", "redis", "kafka")


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


def _worker(world: World, step: Step) -> WorkerProcess | None:
    return world.slots[step.who % len(world.slots)]


def _of_worker(thread: str, wants: Callable[[World, WorkerProcess], bool], act: str) -> Verb:
    """Return the verb of one of a worker's threads.

    Args:
        wants: whether it has something to do.
        act: the method that does it.
    """

    def can(world: World, step: Step) -> bool:
        one = _worker(world, step)
        return one is not None and one.may_run(thread) and wants(world, one)

    def do(world: World, step: Step) -> None:
        one = _worker(world, step)
        if one is not None:
            world.run(one, thread, getattr(one, act))

    return Verb(can, do)


def _loop_wants(world: World, one: WorkerProcess) -> bool:
    held = one.worker._held
    busy = one.pool.has_news or len(one.buffer) or not one.worker.idle
    goes_on = held.continuing or held.effects or one.worker._revived or one.worker.journal_away
    return bool(busy or goes_on or one.teller.told_count or one.worker._published)


def _intake_wants(world: World, one: WorkerProcess) -> bool:
    kafka = world.kafka
    return not one.leaving and any(
        owner == one.name and kafka.positions[partition] < len(kafka.logs[partition])
        for partition, owner in kafka.owners.items()
    )


def _teller_wants(world: World, one: WorkerProcess) -> bool:
    return bool(one.teller._untold or one.teller._untold._running)


def _sweeper_wants(world: World, one: WorkerProcess) -> bool:
    return any(
        row.state == State.CLAIMED or row.published_at is None
        for row in world.database.rows.values()
    )


def _republisher_wants(world: World, one: WorkerProcess) -> bool:
    return one.republisher._heard != one.republisher._served


def _can_child(world: World, step: Step) -> bool:
    one = _worker(world, step)
    if one is None or one.host_stops:
        return False
    child = step.a % len(one.pool.children)
    return f"child {child}" not in one.busy and one.pool.can_step(child)


def _do_child(world: World, step: Step) -> None:
    one = _worker(world, step)
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


def _do_crash(world: World, step: Step) -> None:
    one = _worker(world, step)
    if one is not None:
        world.bury(one)


def _can_start(world: World, step: Step) -> bool:
    return _worker(world, step) is None and len(world.processes) < 8


def _can_kill(world: World, step: Step) -> bool:
    one = _worker(world, step)
    return one is not None and bool(one.pool.children[step.a % len(one.pool.children)])


def _do_kill(world: World, step: Step) -> None:
    one = _worker(world, step)
    if one is not None:
        one.pool.die(step.a % len(one.pool.children))


def _do_freeze(world: World, step: Step) -> None:
    one = _worker(world, step)
    if one is not None:
        one.frozen_ms, one.host_stops = world.clock.true_ms, bool(step.a % 2)
        world.note(one, "is stopped" + (", its children too" if one.host_stops else ""))
        if step.b % 2:
            world.pass_time(LONG_MS)
            _let_others_go_on(world, one)


def _let_others_go_on(world: World, one: WorkerProcess) -> None:
    """Let its peers look after what a worker has left, since its lease is over."""
    for place, peer in enumerate(world.slots):
        for verb in ("sweep", "loop") if peer is not one else ():
            step = Step(verb, place)
            if VERBS[verb].can(world, step):
                VERBS[verb].do(world, step)


def _do_wake(world: World, step: Step) -> None:
    one = _worker(world, step)
    if one is not None:
        one.host_stops = False
        one.wake(world.clock.true_ms)
        world.note(one, "goes on")


def _is_running(world: World, step: Step) -> bool:
    one = _worker(world, step)
    return one is not None and one.frozen_ms is None and not one.busy


def _is_frozen(world: World, step: Step) -> bool:
    one = _worker(world, step)
    return one is not None and one.frozen_ms is not None and not one.busy


def _do_arm(world: World, step: Step) -> None:
    one = _worker(world, step)
    if one is not None:
        link = LINKS[step.a % len(LINKS)]
        kinds = _kinds(link)
        one.armed[link] = Fault(kinds[step.b % len(kinds)], step.c // 2, bool(step.c % 2))


def _kinds(link: str) -> tuple[FaultKind, ...]:
    if link == "pool":
        return POOL_KINDS
    if link in ("redis", "commits", "kafka"):
        return KINDS
    # A database ends a transaction whose client is gone; and while a commit is still under way, its
    # rows are locked, so the next call sees what became of it.
    return tuple(kind for kind in KINDS if kind is not FaultKind.LATE)


def _can_arm_sender(world: World, step: Step) -> bool:
    return world.senders[step.who % len(world.senders)].alive


def _do_arm_sender(world: World, step: Step) -> None:
    sender = world.senders[step.who % len(world.senders)]
    kinds = KINDS if sender is not world.resender else POOL_KINDS[2:] + KINDS[:3]
    fault = Fault(kinds[step.b % len(kinds)], step.c // 2)
    sender.armed[SENDER_LINKS[step.a % len(SENDER_LINKS)]] = fault


def _do_away(world: World, step: Step) -> None:
    world.take_away(SERVERS[step.a % len(SERVERS)])
    world.pass_time(LONG_MS * (step.b % 2))


def _do_back(world: World, step: Step) -> None:
    world.bring_back(SERVERS[step.a % len(SERVERS)])


def _do_empty(world: World, step: Step) -> None:
    world.was_emptied = True
    world.redis.come_back_empty()
    world.note(None, "redis comes back empty")


def _can_duplicate(world: World, step: Step) -> bool:
    return any(world.kafka.logs.values())


def _do_duplicate(world: World, step: Step) -> None:
    records = [record for log in world.kafka.logs.values() for record in log]
    one = records[step.a % len(records)]
    value = one.value if step.b % 4 else b"of another"
    record = world.kafka.append(
        one.topic,
        key=one.key,
        value=value,
        headers=one.headers,
        now_ms=world.clock.true_ms,
    )
    world.note(None, f"{one!r} comes again as {record!r}" + ("" if step.b % 4 else ", changed"))


def _can_drain(world: World, step: Step) -> bool:
    others = [one for one in world.workers if not one.leaving]
    return _is_running(world, step) and _worker(world, step) in others and len(others) > 1


def _do_drain(world: World, step: Step) -> None:
    one = _worker(world, step)
    if one is not None:
        world.note(one, "is told to end")
        world.run(one, "main", one.drain)


def _can_close(world: World, step: Step) -> bool:
    one = _worker(world, step)
    return one is not None and one.leaving and _is_running(world, step)


def _do_close(world: World, step: Step) -> None:
    one = _worker(world, step)
    if one is not None:
        world.leave(one)


def _always(world: World, step: Step) -> bool:
    return True


VERBS = {
    "loop": _of_worker("loop", _loop_wants, "loop"),
    "intake": _of_worker("intake", _intake_wants, "take_in"),
    "teller": _of_worker("teller", _teller_wants, "tell"),
    "sweep": _of_worker("sweeper", _sweeper_wants, "sweep"),
    "republish": _of_worker("republisher", _republisher_wants, "republish"),
    "child": Verb(_can_child, _do_child),
    "client": Verb(_can_client, _do_client),
    "resender": Verb(_can_resender, _do_resender),
    "time": Verb(_always, lambda world, step: world.pass_time(step.a)),
    "start": Verb(_can_start, lambda world, step: world.start_worker(step.who % len(world.slots))),
    "crash": Verb(lambda world, step: _worker(world, step) is not None, _do_crash, True),
    "kill": Verb(_can_kill, _do_kill, True),
    "freeze": Verb(_is_running, _do_freeze, True),
    "wake": Verb(_is_frozen, _do_wake),
    "arm": Verb(lambda world, step: _worker(world, step) is not None, _do_arm, True),
    "arm-sender": Verb(_can_arm_sender, _do_arm_sender, True),
    "away": Verb(lambda world, step: SERVERS[step.a % 3] not in world.away, _do_away, True),
    "back": Verb(lambda world, step: SERVERS[step.a % 3] in world.away, _do_back),
    "empty": Verb(lambda world, step: "redis" not in world.away, _do_empty, True),
    "late": Verb(
        lambda world, step: bool(world.late or world.kafka.late),
        lambda world, step: world.land_late(),
    ),
    "rebalance": Verb(
        _always, lambda world, step: world.rebalance(step.a, eager=bool(step.b % 2)), True
    ),
    "duplicate": Verb(_can_duplicate, _do_duplicate, True),
    "drain": Verb(_can_drain, _do_drain, True),
    "close": Verb(_can_close, _do_close),
}
