"""The steps of a schedule: faults, and what ends them."""

from __future__ import annotations

from tests.simulation.processes import Fault, FaultKind
from tests.simulation.steps import WORK, Step, Verb, always, worker_at
from tests.simulation.worker_process import WorkerProcess
from tests.simulation.world import World

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


def _do_crash(world: World, step: Step) -> None:
    one = worker_at(world, step)
    if one is not None:
        world.bury(one)


def _can_kill(world: World, step: Step) -> bool:
    one = worker_at(world, step)
    return one is not None and bool(one.pool.children[step.a % len(one.pool.children)])


def _do_kill(world: World, step: Step) -> None:
    one = worker_at(world, step)
    if one is not None:
        one.pool.die(step.a % len(one.pool.children))


def _do_freeze(world: World, step: Step) -> None:
    one = worker_at(world, step)
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
            if WORK[verb].can(world, step):
                WORK[verb].do(world, step)


def _do_wake(world: World, step: Step) -> None:
    one = worker_at(world, step)
    if one is not None:
        one.host_stops = False
        one.wake(world.clock.true_ms)
        world.note(one, "goes on")


def _is_running(world: World, step: Step) -> bool:
    one = worker_at(world, step)
    return one is not None and one.frozen_ms is None and not one.busy


def _is_frozen(world: World, step: Step) -> bool:
    one = worker_at(world, step)
    return one is not None and one.frozen_ms is not None and not one.busy


def _do_arm(world: World, step: Step) -> None:
    one = worker_at(world, step)
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
    return _is_running(world, step) and worker_at(world, step) in others and len(others) > 1


def _do_drain(world: World, step: Step) -> None:
    one = worker_at(world, step)
    if one is not None:
        world.note(one, "is told to end")
        world.run(one, "main", one.drain)


def _can_close(world: World, step: Step) -> bool:
    one = worker_at(world, step)
    return one is not None and one.leaving and _is_running(world, step)


def _do_close(world: World, step: Step) -> None:
    one = worker_at(world, step)
    if one is not None:
        world.leave(one)


FAULTS = {
    "crash": Verb(lambda world, step: worker_at(world, step) is not None, _do_crash, True),
    "kill": Verb(_can_kill, _do_kill, True),
    "freeze": Verb(_is_running, _do_freeze, True),
    "wake": Verb(_is_frozen, _do_wake),
    "arm": Verb(lambda world, step: worker_at(world, step) is not None, _do_arm, True),
    "arm-sender": Verb(_can_arm_sender, _do_arm_sender, True),
    "away": Verb(lambda world, step: SERVERS[step.a % 3] not in world.away, _do_away, True),
    "back": Verb(lambda world, step: SERVERS[step.a % 3] in world.away, _do_back),
    "empty": Verb(lambda world, step: "redis" not in world.away, _do_empty, True),
    "late": Verb(
        lambda world, step: bool(world.late or world.kafka.late),
        lambda world, step: world.land_late(),
    ),
    "rebalance": Verb(
        always, lambda world, step: world.rebalance(step.a, eager=bool(step.b % 2)), True
    ),
    "duplicate": Verb(_can_duplicate, _do_duplicate, True),
    "drain": Verb(_can_drain, _do_drain, True),
    "close": Verb(_can_close, _do_close),
}
VERBS = WORK | FAULTS
