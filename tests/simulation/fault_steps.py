"""The steps of a schedule: faults, and what ends them."""

from __future__ import annotations

from collections.abc import Sequence

from consumer.journal import Row
from feedback.records.envelope import Envelope, Record, encode_headers
from tests.simulation.kafka import place_of
from tests.simulation.processes import Fault, FaultKind
from tests.simulation.requests import nth_id
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
KINDS = tuple(kind for kind in FaultKind if kind is not FaultKind.REFUSED)
# A pool is in the same process: nothing can be lost on the way to it.
POOL_KINDS = tuple(kind for kind in FaultKind if kind.name.startswith(("CRASH", "STALL")))
# Longer than a lease and a session: half of the stops and outages last so long at least.
LONG_MS = 6_500
# Longer than a resender waits.
SUSPENDED_MS = 12_000
# The number of a request that is never sent outside a transaction that is aborted.
ABORTED = 100
# Of four copies: how many go to another topic.
OTHER_TOPICS = 1
RETENTIONS_MS = (0, 2_000)
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


def _can_suspend(world: World, step: Step) -> bool:
    client = world.clients[step.who % len(world.clients)]
    return client.may_run("client") and not client.sent


def _do_suspend(world: World, step: Step) -> None:
    """Stop a client within its send, for as long as the resender waits, and have it refused."""
    client = world.clients[step.who % len(world.clients)]
    if step.a % 2:
        hangs = Fault(FaultKind.STALL_AFTER, step.b // 4, meanwhile=lambda: _let_resend(world))
        client.armed["tells"] = hangs
    client.armed["kafka"] = Fault(FaultKind.REFUSED)
    world.run(client, "client", client.submit)
    if step.a % 4 == 2:
        # What it has taken back stands there again.
        _do_redis_back(world, Step("redis-back"))


def _let_resend(world: World) -> None:
    """Let the resender find what has been PENDING for so long, if it can."""
    world.pass_time(SUSPENDED_MS)
    step = Step("resender")
    if WORK[step.verb].can(world, step):
        WORK[step.verb].do(world, step)


def _do_away(world: World, step: Step) -> None:
    world.take_away(SERVERS[step.a % len(SERVERS)])
    world.pass_time(LONG_MS * (step.b % 2))


def _do_back(world: World, step: Step) -> None:
    world.bring_back(SERVERS[step.a % len(SERVERS)])


def _do_empty(world: World, step: Step) -> None:
    world.lose_statuses()
    world.redis.come_back_empty()
    world.note(None, "redis comes back empty")


def _do_redis_back(world: World, step: Step) -> None:
    world.lose_statuses()
    writes = 1 + step.a % (40 if step.b % 2 else 4)
    world.redis.go_back(writes)
    world.note(None, f"redis comes back as it was {writes} writes ago")


def _do_flush(world: World, step: Step) -> None:
    world.lose_statuses()
    world.redis.flush()
    world.note(None, "redis is told FLUSHALL")


def _do_forget(world: World, step: Step) -> None:
    world.forget_commits(1 + step.a % 12)


def _can_prune(world: World, step: Step) -> bool:
    old = world.database.prunable(RETENTIONS_MS[step.a % 2])
    # What is as old as that was told long ago, and its workers have not been still since.
    is_old = all(row.published_at for row in old)
    in_hand = {run[0] for one in world.workers for run in one.worker._in_flight.running}
    is_away = "journal" in world.away
    return bool(old) and is_old and not is_away and in_hand.isdisjoint(_ids(old))


def _ids(rows: Sequence[Row]) -> set[str]:
    return {row.request_id for row in rows}


def _do_prune(world: World, step: Step) -> None:
    names = world.carry_out("journal", lambda: world.database.prune(RETENTIONS_MS[step.a % 2]))
    world.watch.pruned(names)
    world.note(None, f"the journal forgets {', '.join(names)}")
    if step.b % 2:
        _do_reset(world, step)


def _do_reset(world: World, step: Step) -> None:
    world.rebalance(0, eager=True)
    partition = sorted(world.kafka.logs)[step.b % len(world.kafka.logs)]
    offset = step.c % (world.kafka.committed[partition] + 1)
    world.kafka.reset(partition, offset)
    world.note(None, f"the offset of {partition} is reset to {offset}")


def _do_transaction(world: World, step: Step) -> None:
    """Write the record of a transaction that will not be committed."""
    client = world.clients[step.who % len(world.clients)]
    request_id = nth_id(client.plan.order, ABORTED + step.a)
    deadline_at = world.clock.true_ms + 300_000
    record = world.kafka.append(
        client.plan.topic,
        key=client.plan.key,
        value=b"5",
        headers=encode_headers(Envelope(request_id, 1, deadline_at), ()),
        now_ms=world.clock.true_ms,
    )
    world.kafka.open.add(place_of(record))
    world.watch.over(request_id, "that its transaction was aborted")
    world.note(None, f"{record!r} is written in a transaction, as {request_id}")
    if step.b % 2:
        _do_abort(world, step)


def _do_abort(world: World, step: Step) -> None:
    world.kafka.abort_all()
    world.note(None, "the transactions are aborted")


def _can_duplicate(world: World, step: Step) -> bool:
    return bool(_records(world))


def _records(world: World) -> list[Record]:
    """Return all that can be read: nobody copies what was never committed."""
    kafka = world.kafka
    logs = (record for log in kafka.logs.values() for record in log)
    return [one for one in logs if kafka.counts(one) and kafka.is_stable(one)]


def _do_duplicate(world: World, step: Step) -> None:
    records = _records(world)
    one = records[step.a % len(records)]
    value = one.value if step.b % 4 else b"of another"
    topics = sorted({topic for topic, _ in world.kafka.logs})
    record = world.kafka.append(
        one.topic if step.c % 4 >= OTHER_TOPICS else topics[step.who % len(topics)],
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
    "suspend": Verb(_can_suspend, _do_suspend, True),
    "away": Verb(lambda world, step: SERVERS[step.a % 3] not in world.away, _do_away, True),
    "back": Verb(lambda world, step: SERVERS[step.a % 3] in world.away, _do_back),
    "empty": Verb(lambda world, step: "redis" not in world.away, _do_empty, True),
    "redis-back": Verb(lambda world, step: "redis" not in world.away, _do_redis_back, True),
    "flush": Verb(lambda world, step: "redis" not in world.away, _do_flush, True),
    "forget": Verb(always, _do_forget, True),
    "prune": Verb(_can_prune, _do_prune, True),
    "reset": Verb(always, _do_reset, True),
    "transaction": Verb(always, _do_transaction, True),
    "abort": Verb(lambda world, step: bool(world.kafka.open), _do_abort),
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
