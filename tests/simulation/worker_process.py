"""A worker process made of the product's own parts, each driven by the scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from consumer.features.collapse.collapsing import Collapsing
from consumer.handlers.declaration import Handler
from consumer.intake.buffer import Buffer, Received
from consumer.intake.context import IntakeContext
from consumer.intake.intake import Intake
from consumer.journal import JournalUnavailable, Row
from consumer.loop.limits import Limits
from consumer.loop.payload_lookup import PayloadLookup
from consumer.loop.recovery.sweeper import Sweeper
from consumer.loop.scheduler import Scheduler
from consumer.loop.worker import Worker
from consumer.status.availability import ServerOutage
from consumer.status.heartbeat import Heartbeat
from consumer.status.liveness import Liveness
from consumer.status.status_restore import StatusRestore
from consumer.status.status_writer import StatusWriter
from feedback.clock import monotonic_s
from feedback.errors import KafkaUnavailable
from feedback.records.envelope import Record, payload_sha256
from feedback.settings.settings import (
    ClientSection,
    JournalSection,
    RedisSection,
    Settings,
    WorkerSection,
)
from tests.consumer.cores import core_of
from tests.simulation.clock import Face
from tests.simulation.journal import SimulatedJournal, SimulatedLeases, SimulatedRepublication
from tests.simulation.links import SimulatedSource
from tests.simulation.pool import SimulatedPool
from tests.simulation.processes import NoThread, Parked, Parking, Process
from tests.simulation.store import SimulatedStore

if TYPE_CHECKING:
    from tests.simulation.world import World

LEASE_S = 5.0
HEARTBEAT_TTL_MS = 5000
RESEND_AFTER_S = 10.0
# Sections as a whole: a variable of the environment would take the place of one that is given to
# `Settings`, and a seed would be another schedule where servers run.
SETTINGS = Settings().model_copy(
    update={
        "journal": JournalSection(lease_s=LEASE_S, wait_s=8.0),
        "redis": RedisSection(heartbeat_ttl_s=HEARTBEAT_TTL_MS / 1000),
        "client": ClientSection(resend_after_s=RESEND_AFTER_S),
        "worker": WorkerSection(handlers=(), processes=2, buffer_limit=4, deadline_s=20.0),
    }
)


class Waiting(Buffer):
    """A buffer whose waits take no time."""

    def wait_for_room(self, timeout_s: float, *, at_least: int = 1) -> bool:
        """Return whether there is room now."""
        return self.room >= at_least


class Payloads(PayloadLookup):
    """What a dead worker's request needs to go on; the topics are simulated."""

    def __init__(self, world: World, store: Any, handlers: Mapping[str, Handler]) -> None:
        super().__init__(
            store=store, kafka=SETTINGS.kafka, handlers=handlers, redis_away=lambda: False
        )
        self._world = world

    def _sent(self, row: Row) -> Record | None:
        if "kafka" in self._world.away:
            raise KafkaUnavailable("Kafka is away")
        record = self._world.kafka.logs[row.topic, row.partition][row.offset]
        is_the_same = payload_sha256(record.key, record.value) == row.payload_sha256
        return record if is_the_same else None


class WorkerProcess(Process):
    """One worker, from its start to its death.

    Attributes:
        leaving: it drains: it reads no more.
    """

    def __init__(
        self,
        world: World,
        name: str,
        face: Face,
        *,
        handlers: Mapping[str, Handler],
        children: int,
        slots: int,
    ) -> None:
        super().__init__(name, face)
        self.handlers = handlers
        self.leaving = False
        self.host_stops = False
        self._world = world
        store: Any = SimulatedStore(world, self, heartbeat_ttl_ms=HEARTBEAT_TTL_MS)
        self.source: Any = SimulatedSource(world, self)
        self.pool = SimulatedPool(
            world, self, name, handlers=handlers, children=children, slots=slots
        )
        self.buffer = Waiting(4 * children * slots)
        collapsing = [one.topic for one in handlers.values() if one.collapse is not None]
        self.scheduler = Scheduler(self.buffer, gathering=collapsing)
        self.status_writer = StatusWriter(store, resend_after_s=RESEND_AFTER_S)
        self.republisher = self._make_republisher(store)
        self.liveness = self._make_liveness(store)
        self.worker = self._make_worker(store, slots=children * slots)
        self.sweeper = self._make_sweeper(store)
        self.intake = self._make_intake()
        self._park()
        self.next_renewal_ms = 0

    def _make_republisher(self, store: Any) -> StatusRestore:
        republication: Any = SimulatedRepublication(self._world, self, self.name)
        return StatusRestore(
            republication=republication,
            store=store,
            holding=lambda: self.worker.in_hand.statuses(),
            backlog=lambda: self.status_writer.backlog,
            ttl_s=SETTINGS.redis.ttl_s,
            resend_after_s=RESEND_AFTER_S,
            lease_s=LEASE_S,
            on_lost=lambda: self.status_writer.forget_told(),
        )

    def _make_liveness(self, store: Any) -> Liveness:
        leases: Any = SimulatedLeases(self._world, self, self.name)
        heartbeat = Heartbeat(
            store=store,
            worker_id=self.name,
            journal_id="the journal",
            heartbeat_ttl_s=SETTINGS.redis.heartbeat_ttl_s,
            load=dict,
            outage=ServerOutage("redis"),
            on_foreign_journal=self._foreign_journal,
            on_run_id=self.republisher.redis_is,
        )
        return Liveness(leases=leases, heartbeat=heartbeat, lease_s=SETTINGS.journal.lease_s)

    def _make_worker(self, store: Any, *, slots: int) -> Worker:
        journal: Any = SimulatedJournal(self._world, self, self.name, link="journal")
        pool: Any = self.pool
        return Worker(
            worker_id=self.name,
            scheduler=self.scheduler,
            journal=journal,
            pool=pool,
            status_writer=self.status_writer,
            lease=self.liveness,
            limits=Limits(slots=slots, journal_wait_s=SETTINGS.journal.wait_s),
            features=(Collapsing(self.scheduler.key_queues),),
            statuses=store,
        )

    def _make_sweeper(self, store: Any) -> Sweeper:
        core = core_of(
            SETTINGS,
            worker_id=self.name,
            handlers=tuple(self.handlers.values()),
            sweeps=SimulatedJournal(self._world, self, self.name, link="sweeps"),
            payloads=Payloads(self._world, store, self.handlers),
            status_writer=self.status_writer,
            store=store,
            may_sweep=lambda now_s: self.liveness.may_sweep(now_s),
        )
        return Sweeper(core, revive=self.worker.revive, room=lambda: self.worker.room_for_revived)

    def _make_intake(self) -> Intake:
        context = IntakeContext(
            settings=SETTINGS,
            worker_id=self.name,
            status_writer=self.status_writer,
            buffer=self.buffer,
            may_take=self._may_take,
            wake=lambda: None,
            on_end=lambda error: None,
            full=lambda: self.scheduler.full,
        )
        return Intake(
            context,
            self.handlers.values(),
            open_source=lambda: self.source,
            gathers=any(one.collapse is not None for one in self.handlers.values()),
        )

    def _park(self) -> None:
        """Let no thread of its own run, and no wait of the driven ones take time."""
        heartbeat = self.liveness._heartbeat
        self.intake._stopping = Parking(turns=None)  # type: ignore[assignment]
        self.status_writer._changed = Parking()  # type: ignore[assignment]
        self._republishing = Parking(turns=2)
        self.republisher._changed = self._republishing  # type: ignore[assignment]
        self._renewal, self._beat = Parking(turns=1), Parking(turns=1)
        self.liveness._stopping = self._renewal  # type: ignore[assignment]
        heartbeat._stopping = self._beat  # type: ignore[assignment]
        self.liveness._thread = heartbeat._thread = NoThread()  # type: ignore[assignment]

    def _may_take(self) -> bool:
        return not self.worker.journal_away and self.liveness.lease_holds(monotonic_s())

    def _foreign_journal(self, error: Exception) -> None:
        raise error

    # its threads ---------------------------------------------------------------------------

    def start(self) -> None:
        """Take the lease and the first heartbeat."""
        self.liveness.start()

    def loop(self) -> None:
        """Take one turn of the worker's loop."""
        self.worker.turn()

    def take_in(self) -> None:
        """Take one turn of the intake."""
        self.intake._turn(self.source)

    def tell(self) -> None:
        """Let the status writer tell until it has nothing to tell."""
        self.status_writer._run()

    def renew(self) -> None:
        """Renew the lease."""
        self._renewal.let_run()
        self.liveness._run()

    def beat(self) -> None:
        """Renew the heartbeat."""
        self._beat.let_run()
        self.liveness._heartbeat._run()

    def republish(self) -> None:
        """Tell again what a Redis that came back empty has forgotten."""
        self._republishing.let_run()
        self.republisher._run()

    def sweep(self) -> None:
        """Sweep, if that is allowed now."""
        if self.liveness.may_sweep(monotonic_s()):
            self.sweeper.sweep()

    def drain(self) -> None:
        """Stop reading, and give up what waits."""
        self.leaving = True
        self.worker.take_nothing_more()
        self.worker.give_up(self.scheduler.take_all(), code="")

    def close(self) -> None:
        """Cut what runs, write what became of it, tell it, and give the lease back."""
        self.worker.give_up(self.scheduler.take_all(), code="")
        with suppress(JournalUnavailable):  # their claims stand, and are swept
            if not self.worker.idle:
                self.worker.cut()
        with suppress(JournalUnavailable):
            self.worker.write_rest()
            with suppress(Parked):
                self.tell()
            self.worker.write_rest()
        self.liveness.release()

    # looking -------------------------------------------------------------------------------

    def holds(self, request_id: str) -> bool:
        """Whether the request is in this process, or its status still is."""
        held = self.worker._in_flight
        lost = ((one.request_id, one.generation) for one in held.lost)
        runs = (*held.running, *held.settlements, *held.continuing, *lost)
        waiting: list[Received] = [*held.claiming, *held.refusing]
        revived = self.worker._selection.revived
        return (
            any(one.request_id == request_id for one in self.scheduler.arriving)
            or any(one.request_id == request_id for one in self.scheduler.waiting)
            or any(run[0] == request_id for run in runs)
            or any(one.request_id == request_id for one in waiting)
            or any(one.run[0] == request_id for one in revived)
            or request_id in self.status_writer._untold._due
        )

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is under way in it."""
        is_told = not self.status_writer._untold and not self.status_writer._untold._running
        return self.worker.idle and not len(self.scheduler) and is_told
