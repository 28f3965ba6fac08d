"""One worker, made of its parts; each feature is one line of `FEATURES`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from consumer.features.alerts import alerts
from consumer.features.batches import batch_intake
from consumer.features.collapse import collapsing
from consumer.features.dead_letters import dead_letters
from consumer.features.outcomes import outcomes
from consumer.features.outcomes.outcomes import outcome_topics
from consumer.features.pausing import pause_sync
from consumer.features.retries import retries
from consumer.features.waits import waits
from consumer.features.waits.private_journal import NO_JOURNAL, PrivateJournal
from consumer.handlers.checks.waits import require_no_journal
from consumer.handlers.declaration import Handler
from consumer.intake.before_commit import BeforeCommit
from consumer.intake.buffer import Buffer
from consumer.intake.gate import Gate
from consumer.intake.readers import readers
from consumer.journal import Journal, Leases
from consumer.journal.losses.republish import Republication
from consumer.loop.core import Core
from consumer.loop.ended_runs import LIMIT_BYTES
from consumer.loop.feature import Feature, that_have
from consumer.loop.limits import Limits
from consumer.loop.payload_lookup import PayloadLookup
from consumer.loop.recovery.sweeper import Sweeper
from consumer.loop.scheduler import Scheduler
from consumer.loop.worker import Worker
from consumer.ops.health import Health, doubts
from consumer.ops.health.pace_meter import PaceMeter
from consumer.ops.health.probe import Probe
from consumer.ops.health.progress import HEARTBEAT, INTAKE
from consumer.ops.rights.roles import require_worker_rights
from consumer.ops.signals import StopSignals
from consumer.ops.startup import (
    load_registry,
    new_worker_id,
    open_source,
    pool_settings,
    require_topics,
)
from consumer.ops.workers.workers import load_of
from consumer.pool import Pool
from consumer.status.availability import ServerOutage
from consumer.status.heartbeat import Heartbeat, check_journal
from consumer.status.liveness import Liveness
from consumer.status.status_restore import StatusRestore
from consumer.status.status_writer import StatusWriter
from feedback.clock import monotonic_s
from feedback.kafka.source import KafkaSource, Unclaimed
from feedback.kafka.values import Partition
from feedback.observer import Observer
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import Settings
from feedback.statuses import StatusWrite

# One line for each feature: its factory returns nothing where the feature is off. Listeners stand
# before the features that call them (`Core.made`): they start first, and stop last.
FEATURES: Sequence[Callable[[Core], Sequence[Feature]]] = (
    alerts.make,
    pause_sync.make,
    waits.make,
    dead_letters.make,
    outcomes.make,
    retries.make,
    collapsing.make,
    batch_intake.make,
    doubts.make,
)


class Build:
    """Makes everything of one worker and connects it; starts nothing.

    Args:
        settings: checked settings with at least one handler module.
        observers: hear what it does, beside its health.

    Attributes: the parts that `service` starts and stops.

    Raises:
        SettingsError: no handlers, handlers that do not import, a journal of another version or
            of another group's making.
        NotAvailable: a server is not there, or the users of the settings lack a right.
    """

    def __init__(self, settings: Settings, observers: Sequence[Observer] = ()) -> None:
        registry = load_registry(settings)
        self._handlers, self.topics = registry.handlers, registry.topics
        require_worker_rights(settings, registry.handlers)
        self.own_journal: PrivateJournal | None = None
        if not settings.journal.url:
            require_no_journal(registry.handlers)
            self.own_journal = PrivateJournal(settings)
            settings = self.own_journal.settings
        self.settings = settings
        self.worker_id = new_worker_id()
        self.health = Health(settings=settings, worker_id=self.worker_id, observers=observers)
        self.journal = self._make_journal(self.health.observers)
        self.journal.require_current()
        journal_id = NO_JOURNAL if self.own_journal else self.journal.journal_id()
        redis, group = connect(settings.redis), settings.kafka.group
        self.store = StatusStore(redis, group, settings.redis, self.health.timers)
        check_journal(self.store, journal_id)
        self._outage = ServerOutage("redis")
        self._pace = PaceMeter()
        self.features: list[Feature] = [*self.health.metrics, self._pace]
        self._hear_told: tuple[Feature, ...] = ()
        self._gates: list[Gate] = []
        self.status_writer = StatusWriter(
            StatusStore(redis, group, settings.redis, self.health.observers),
            outage=self._outage,
            resend_after_s=settings.client.resend_after_s,
            on_tell=self._hear,
            may_be_behind=self.own_journal is None,
        )
        self.pool = Pool(settings=pool_settings(settings, self._handlers, worker_id=self.worker_id))
        self.stop = StopSignals(on_stop=self.pool.wake)
        self.restore = self._make_restore()
        self.liveness = self._make_liveness(journal_id)
        self._buffer = Buffer(settings.worker.buffer_size, self.health.observers)
        self._scheduler = self._make_scheduler()
        core = self._make_core()
        for make in FEATURES:
            self.features += make(core)
        self._hear_told = that_have(self.features, Feature.told)
        self.worker = self._make_worker()
        self.sweeper = Sweeper(
            core,
            revive=self.worker.revive,
            room=lambda: self.worker.room_for_revived,
            may_mark=lambda: not self.worker.journal_away,
        )
        self.probe = Probe(
            core,
            worker=self.worker,
            pool=self.pool,
            liveness=self.liveness,
            redis=self._outage,
        )
        self.intakes = tuple(
            readers(
                core,
                self._handlers,
                open_source=lambda some: self._open_source(some, self._unclaimed),
                before_commit=core.made(BeforeCommit),
            )
        )

    def require_topics(self) -> None:
        """Return when the topics of requests exist; see `startup.require_topics`."""
        require_topics(self.settings, self._handlers)

    # questions between the parts -------------------------------------------------------------

    def _redis_away(self) -> bool:
        return self._outage.is_on

    def _may_take(self) -> bool:
        # A record that is read before a child can run it would only wait, and be LOST with this
        # worker.
        is_able = self.pool.load.ready > 0 and not self.worker.journal_away
        return is_able and self.liveness.lease_holds(monotonic_s())

    def _reader_ended(self, error: BaseException | None) -> None:
        if error is not None:
            self.stop.fail(error)
        self.pool.wake()

    def _load(self) -> Mapping[str, object]:
        probe = self.probe
        return load_of(
            probe.look(),
            probe.oldest(),
            waiting=len(self._scheduler),
            pace=self._pace.seen(),
            handlers=self._handlers,
        )

    def _hear(self, told: Sequence[StatusWrite]) -> None:
        for one in self._hear_told:
            one.told(told)

    def _open_source(self, handlers: Sequence[Handler], unclaimed: Unclaimed) -> KafkaSource:
        source = open_source(self.settings, handlers, self.health.observers)
        self.probe.sources.append(source)
        source.unclaimed = unclaimed
        return source

    def _unclaimed(self, revoked: Collection[Partition]) -> Mapping[Partition, int]:
        return self.worker.in_hand.first_unclaimed(revoked)

    # the parts -------------------------------------------------------------------------------

    def _make_journal(self, observers: Sequence[Observer] = ()) -> Journal:
        return Journal.from_settings(
            self.settings,
            worker_id=self.worker_id,
            outcome_topics=outcome_topics(self._handlers).keys(),
            observers=observers,
        )

    def _make_restore(self) -> StatusRestore:
        settings = self.settings
        return StatusRestore(
            republication=Republication.from_settings(settings, worker_id=self.worker_id).timed(
                self.health.observers, "restore"
            ),
            store=self.store,
            holding=lambda: self.worker.in_hand.statuses(),
            backlog=lambda: self.status_writer.backlog,
            ttl_s=settings.redis.ttl_s,
            resend_after_s=settings.client.resend_after_s,
            lease_s=settings.journal.lease_s,
            on_lost=lambda: self.status_writer.forget_told(),
        )

    def _make_liveness(self, journal_id: str) -> Liveness:
        heartbeat = Heartbeat(
            store=self.store,
            worker_id=self.worker_id,
            journal_id=journal_id,
            heartbeat_ttl_s=self.settings.redis.heartbeat_ttl_s,
            load=self.health.progress.ticking(HEARTBEAT, self._load),
            outage=self._outage,
            on_foreign_journal=self.stop.fail,
            on_run_id=self.restore.redis_is,
        )
        return Liveness(
            leases=Leases.from_settings(self.settings, worker_id=self.worker_id),
            heartbeat=heartbeat,
            lease_s=self.settings.journal.lease_s,
            forgets=self.own_journal is not None,
            observers=self.health.observers,
        )

    def _make_scheduler(self) -> Scheduler:
        worker = self.settings.worker
        return Scheduler(
            self._buffer,
            Buffer(worker.buffer_size),
            order_held_limit=worker.order_held_limit,
            order_held_limit_bytes=worker.order_held_limit_bytes,
            gates=self._gates,
            gathering=[one.topic for one in self._handlers if one.collapse is not None],
        )

    def _make_core(self) -> Core:
        return Core(
            settings=self.settings,
            worker_id=self.worker_id,
            handlers=self._handlers,
            outlives=self.own_journal is None,
            store=self.store,
            redis_away=self._redis_away,
            observers=self.health.observers,
            scheduler=self._scheduler,
            buffer=self._buffer,
            status_writer=self.status_writer,
            sweeps=self._make_journal().timed(self.health.observers, "sweep"),
            payloads=PayloadLookup(
                store=self.store,
                kafka=self.settings.kafka,
                handlers={one.topic: one for one in self._handlers},
                redis_away=self._redis_away,
            ),
            may_sweep=self.liveness.may_sweep,
            may_take=self.health.progress.ticking(INTAKE, self._may_take),
            wake=self.pool.wake,
            on_end=self._reader_ended,
            open_source=self._open_source,
            has_any=lambda places: self.worker.in_hand.has_any(places),
            gates=self._gates,
            full=lambda: self._scheduler.full,
            features=self.features,
        )

    def _make_worker(self) -> Worker:
        outlives = self.own_journal is None
        return Worker(
            worker_id=self.worker_id,
            scheduler=self._scheduler,
            journal=self.journal,
            pool=self.pool,
            status_writer=self.status_writer,
            lease=self.liveness,
            limits=Limits(
                slots=self.settings.worker.slots,
                journal_wait_s=self.settings.journal.wait_s,
                looks_every_s=self.settings.journal.lease_s,
                # A journal of one's own forgets on purpose, and loses nothing while we live.
                remembered_bytes=LIMIT_BYTES if outlives else 0,
            ),
            features=self.features,
            statuses=self.store if outlives else None,
        )
