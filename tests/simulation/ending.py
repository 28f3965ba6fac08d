"""The end of a schedule: no more faults, everybody goes on, and every request has to end."""

from __future__ import annotations

from consumer.handlers.declaration import EffectKind
from consumer.journal import JournalState
from feedback.status import FINAL
from tests.simulation.clients import SimulatedClient
from tests.simulation.kafka import request_id_of
from tests.simulation.processes import Violation
from tests.simulation.requests import order_of
from tests.simulation.steps import WORK, Step
from tests.simulation.world import World

ROUNDS = 400
ACTIVE_MS, IDLE_MS = 400, 4_000


def run_to_quiet(world: World) -> None:
    """Mend everything, and let everybody work until all requests have ended.

    Raises:
        Violation: one does not end.
    """
    world.note(None, "---- no more faults ----")
    _mend(world)
    for _ in range(ROUNDS):
        is_active = _round(world)
        if not is_active and all(_has_ended(world, one) for one in world.clients):
            return
        world.pass_time(ACTIVE_MS if is_active else IDLE_MS)
    late = [
        request_id
        for one in world.clients
        for request_id in one.ids
        if not _has_request_ended(world, one, request_id)
    ]
    said = ", ".join(f"{one} {world.redis.read(one).state}" for one in late)
    raise Violation("every request ends", f"{said or 'all did, but the workers'} go on for ever")


def _mend(world: World) -> None:
    for server in tuple(world.away):
        world.bring_back(server)
    world.land_late()
    world.kafka.abort_all()
    for process in (*world.workers, *world.senders):
        process.armed.clear()
        process.wake(world.clock.true_ms)
    for place, worker in enumerate(world.slots):
        if worker is not None:
            worker.host_stops = False
            if worker.leaving:
                world.leave(worker)
        if world.slots[place] is None:
            world.start_worker(place)
    for client in world.clients:
        if client.alive and not client.sent:
            world.run(client, "client", client.submit)


def _round(world: World) -> bool:
    """Let each do what it has to do; say whether a worker had anything."""
    is_active = False
    for place in range(len(world.slots)):
        for verb in ("intake", "loop", "child", "loop", "status_writer", "sweep", "republish"):
            for child in range(world.shape[0] if verb == "child" else 1):
                is_active |= _do(world, Step(verb, place, child)) and verb not in (
                    "sweep",
                    "republish",
                )
    for number in range(len(world.clients)):
        _do(world, Step("client", number))
    _do(world, Step("resender"))
    return is_active


def _do(world: World, step: Step) -> bool:
    verb = WORK[step.verb]
    if not verb.can(world, step):
        return False
    verb.do(world, step)
    world.clock.true_ms += 1
    return True


def _counts(world: World, client: SimulatedClient, request_id: str) -> bool:
    """Whether an end of this request is promised (docs: The guarantee, 5 and 7)."""
    log = (one for partition in world.kafka.logs.values() for one in partition)
    is_in_kafka = any(request_id_of(one) == request_id for one in log)
    waits = client.alive and client.plan.waits and request_id == client.request_id
    is_in_journal = request_id in world.database.rows and not _is_back_untold(world, request_id)
    if not waits and not is_in_journal and _is_nobodys(world, request_id):
        return False
    if client.plan.is_foreign and not is_in_journal:
        return request_id in world.redis.hashes  # nobody else knows of it
    is_known = not world.was_emptied or request_id in world.redis.hashes
    return is_in_kafka and (waits or is_in_journal or is_known)


def _is_back_untold(world: World, request_id: str) -> bool:
    """Whether a row that was pruned is back, and says of a Redis that is gone that it was told.

    Nobody can see that: an empty Redis is told what the journal has at that time (7). Its client
    has its answer where it still waits, or asks again.
    """
    row = world.database.rows[request_id]
    is_back = (request_id, row.generation) in world.losses.back_untold
    return is_back and row.published_at is not None


def _is_nobodys(world: World, request_id: str) -> bool:
    """Whether nobody knows any more that a request is to be looked after.

    The database has forgotten it, and Redis its place in the due set. What a worker tells of it
    later stands in Redis without that. But one that lives and holds it writes it again.
    """
    is_unlooked = request_id in world.redis.unlooked - world.redis.deadlines.keys()
    is_held = any(one.holds(request_id) for one in world.workers)
    return is_unlooked and request_id in world.losses.forgotten and not is_held


def _has_ended(world: World, client: SimulatedClient) -> bool:
    is_asked = client.sent or not client.alive or not client.plan.waits
    return is_asked and all(_has_request_ended(world, client, one) for one in client.ids)


def _has_request_ended(world: World, client: SimulatedClient, request_id: str) -> bool:
    if not _counts(world, client, request_id):
        return True
    row = world.database.rows.get(request_id)
    status = world.redis.read(request_id)
    is_agreed = row is None or (row.state, row.generation) == (status.state, status.generation)
    # Of a run that the database has forgotten, two workers may each have told an end.
    is_agreed = is_agreed or request_id in world.losses.forgotten
    # Of what was pruned and is read again, the journal knows less than the client was told.
    is_agreed = is_agreed or (row is not None and row.is_forgotten)
    is_agreed = is_agreed or order_of(request_id) in world.losses.excused
    return status.state in FINAL and is_agreed


def check_end(world: World) -> None:
    """Look at what is left when all is quiet.

    Raises:
        Violation: journal, status and counterparty do not agree.
    """
    for request_id in (one for client in world.clients for one in client.ids):
        row = world.database.rows.get(request_id)
        if row is None or order_of(request_id) in world.losses.excused:
            continue
        charges = world.bank.charges[request_id]
        if row.state == JournalState.SUCCEEDED and charges != 1:
            raise Violation("no wrong outcome", f"{request_id} SUCCEEDED, {charges} charges")
        if (
            row.state in (JournalState.FAILED, JournalState.EXPIRED, JournalState.SKIPPED)
            and charges
        ):
            raise Violation("no wrong outcome", f"{request_id} {row.state}, but was charged")
        is_doubted = row.state == JournalState.IN_DOUBT and not row.is_forgotten
        if row.effect_kind == EffectKind.TRANSACTIONAL and is_doubted:
            raise Violation("a transactional run leaves no doubt", f"{request_id} is in doubt")
    for process in world.workers:
        if process.worker.held:
            raise Violation("every request ends", f"{process.name} holds on to something")
