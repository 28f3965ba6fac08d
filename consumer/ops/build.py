"""One worker, made of its parts: the features, one line each, and the list of its components."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from consumer.features.alerts import alerts
from consumer.features.batches import batch_intake
from consumer.features.collapse import collapsing
from consumer.features.dead_letters import dead_letters
from consumer.features.outcomes import outcomes
from consumer.features.outcomes.outcomes import outcome_topics
from consumer.features.pausing import watching
from consumer.features.pausing.pausing import Pausing
from consumer.features.retries import retries
from consumer.features.waits import waits
from consumer.features.waits.private_journal import NO_JOURNAL, PrivateJournal
from consumer.handlers.checks.waits import require_no_journal
from consumer.handlers.declaration import Handler
from consumer.handlers.delivery import Delivery
from consumer.intake.before_commit import BeforeCommit
from consumer.intake.buffer import Buffer
from consumer.intake.gate import Gate
from consumer.intake.readers import readers
from consumer.journal import Journal, Leases
from consumer.journal.republish import Republication
from consumer.loop.core import Core, open_rows
from consumer.loop.ended_runs import LIMIT_BYTES
from consumer.loop.feature import Feature
from consumer.loop.limits import Limits
from consumer.loop.order.unclaimed import first_unclaimed
from consumer.loop.payload_lookup import Revival
from consumer.loop.scheduler import Scheduler
from consumer.loop.sweeper import Sweeper
from consumer.loop.worker import Worker
from consumer.ops.component import Component
from consumer.ops.drain import tell_rest
from consumer.ops.health import Health
from consumer.ops.health.probe import Probe
from consumer.ops.health.progress import HEARTBEAT, INTAKE
from consumer.ops.signals import Stop
from consumer.ops.startup import load_registry, new_worker_id, open_source, pool_settings
from consumer.pool import Pool
from consumer.status import status_messages as telling
from consumer.status.availability import ServerOutage
from consumer.status.heartbeat import check_journal
from consumer.status.liveness import Liveness
from consumer.status.status_restore import StatusRestore
from consumer.status.status_writer import StatusWriter
from feedback.clock import monotonic_s
from feedback.kafka.source import KafkaSource, Partition, Unclaimed
from feedback.observer import Observer
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import Settings
from feedback.statuses import StatusWrite

# One line for each feature: its factory returns nothing where the feature is off. Those that are
# told stand before those that tell them (`Core.made`): they start first, and stop last.
FEATURES: Sequence[Callable[[Core], Sequence[Feature]]] = (
    alerts.make,
    watching.make,
    waits.make,
    dead_letters.make,
    outcomes.make,
    retries.make,
    collapsing.make,
    batch_intake.make,
)


class Build:
    """Makes everything of one worker and connects it; starts nothing.

    Args:
        settings: checked settings with at least one handler module.

    Attributes:
        components: in the order of their start; they stop in reverse.

    Raises:
        SettingsError: no handlers, handlers that do not import, a journal of another version or
            of another group's making.
        NotAvailable: a server is not there.
    """

    def __init__(self, settings: Settings) -> None:
        registry = load_registry(settings)
        self._handlers, self.topics = registry.handlers, registry.topics
        self._own_journal: PrivateJournal | None = None
        if not settings.journal.url:
            require_no_journal(registry.handlers)
            self._own_journal = PrivateJournal(settings)
            settings = self._own_journal.settings
        self._settings = settings
        self.worker_id = new_worker_id()
        self.health = Health(settings=settings, worker_id=self.worker_id)
        self._journal = self._make_journal(self.health.observers)
        self._journal.require_current()
        journal_id = NO_JOURNAL if self._own_journal else self._journal.journal_id()
        redis, group = connect(settings.redis), settings.kafka.group
        self._store = StatusStore(redis, group, settings.redis)
        check_journal(self._store, journal_id)
        self._outage = ServerOutage("redis")
        self._features: list[Feature] = [*self.health.metrics]
        self._gates: list[Gate] = []
        self._teller = StatusWriter(
            StatusStore(redis, group, settings.redis, self.health.observers),
            outage=self._outage,
            resend_after_s=settings.client.resend_after_s,
            on_tell=self._hear,
            may_be_behind=self._own_journal is None,
        )
        self.pool = Pool(settings=pool_settings(settings, self._handlers))
        self.stop = Stop(on_stop=self.pool.wake)
        self._restore = self._make_restore()
        self._liveness = self._make_liveness(journal_id)
        self._buffer = Buffer(settings.worker.buffer_size, self.health.observers)
        self._scheduler = self._make_scheduler()
        core = self._make_core()
        for make in FEATURES:
            self._features += make(core)
        self.worker = self._make_worker()
        self._sweeper = self._make_sweeper(core)
        self._probe = self._make_probe()
        self.components = self._list_components(core)

    def _list_components(self, core: Core) -> Sequence[Component]:
        """Return the components; each comment says whom the next ones need, or are needed by.

        Where two threads may start in any order, their ends decide.
        """
        liveness, teller, pool = self._liveness, self._teller, self.pool
        found: list[Component] = []
        if own := self._own_journal:
            # Its folder goes when nobody uses it any more.
            found.append(Component("private_journal", own.start, stop=own.stop, stop_s=5.0))
        health = self.health
        found += [
            # Watched from the first moment to the last, and asked how it ends.
            Component("health", lambda: health.start(self._probe), stop=health.stop, stop_s=5.0),
            # Connections are closed behind all that use them.
            Component("redis", stop=lambda _: self._close_store()),
            Component("journal", stop=lambda _: self._journal.close()),
            # Without a lease nothing may be read or run. Its end says to peers that they may go on
            # with all that is left: so it comes after the wait topics have said how requests ended.
            Component(
                "lease",
                liveness.start,
                stop=liveness.stop,
                stop_s=3 * self._settings.journal.timeout_s,
            ),
            Component("statuses", teller.start, stop=teller.stop, stop_s=1.0),
            # Children exist before Kafka clients do, and before anything is read that they run.
            # They end in the drain; this is for a worker that could not start.
            Component("children", pool.start, stop=pool.stop),
            # The group's pauses are known before anything is read. Dead letters and outcomes stop
            # before the wait topics, and before the alerts, which hear of them.
            *(_of_feature(one) for one in self._features if one.name),
            Component("status_restore", self._restore.start, stop=self._restore.stop, stop_s=1.0),
            # Clients are told when neither a run nor a sweep has anything to add, and before the
            # wait topics end: a tombstone follows the status of its client.
            Component("rest", stop=lambda s: tell_rest(self.worker, teller, s), stop_s=3.0),
            # Before the retries end, since a sweep has wake-ups sent.
            Component("sweeper", self._sweeper.start, stop=self._sweeper.stop, stop_s=6.0),
        ]
        # Last, since a record that is read is to be run.
        found += [
            Component("intake", one.start, leave=one.leave, has_left=one.has_left)
            for one in readers(
                core,
                self._handlers,
                open_source=lambda some: self._open_source(some, self._unclaimed),
                before_commit=core.made(BeforeCommit),
            )
        ]
        return found

    def _close_store(self) -> None:
        if self._teller.has_ended:
            self._store.close()

    # questions between the parts -------- --------------------------------------------------------

    def _redis_away(self) -> bool:
        return self._outage.is_on

    def _may_take(self) -> bool:
        # A record that is read before a child can run it would only wait, and be LOST with this
        # worker.
        is_able = self.pool.load.ready > 0 and not self.worker.journal_away
        return is_able and self._liveness.lease_holds(monotonic_s())

    def _reader_ended(self, error: BaseException | None) -> None:
        if error is not None:
            self.stop.fail(error)
        self.pool.wake()

    def _load(self) -> Mapping[str, object]:
        return {
            "held": self.worker.held,
            "waiting": len(self._scheduler),
            "slots": self._settings.worker.slots,
        }

    def _hear(self, told: Sequence[StatusWrite]) -> None:
        for one in self._features:
            one.told(told)

    def _holding(self) -> Iterator[StatusWrite]:
        for one in self._scheduler.waiting:
            if isinstance(one, Delivery):
                yield telling.accepted(one, worker_id=self.worker_id)
        yield from self.worker.holding()

    def _open_source(self, handlers: Sequence[Handler], unclaimed: Unclaimed) -> KafkaSource:
        source = open_source(self._settings, handlers, self.health.observers)
        self._probe.sources.append(source)
        source.unclaimed = unclaimed
        return source

    def _unclaimed(self, revoked: Collection[Partition]) -> Mapping[Partition, int]:
        return first_unclaimed(self.worker.unclaimed, revoked)

    # the parts -------------------------------------------------------------------------------

    def _make_journal(self, observers: Sequence[Observer] = ()) -> Journal:
        section = self._settings.journal
        return Journal(
            section.url,
            group=self._settings.kafka.group,
            worker_id=self.worker_id,
            statement_timeout_s=section.timeout_s,
            outcome_topics=outcome_topics(self._handlers).keys(),
            observers=observers,
        )

    def _make_restore(self) -> StatusRestore:
        settings = self._settings
        return StatusRestore(
            republication=open_rows(Republication, settings, self.worker_id),
            store=self._store,
            holding=self._holding,
            backlog=lambda: self._teller.backlog,
            status_ttl_s=settings.redis.status_ttl_s,
            resend_after_s=settings.client.resend_after_s,
            lease_s=settings.journal.lease_s,
        )

    def _make_liveness(self, journal_id: str) -> Liveness:
        return Liveness(
            settings=self._settings,
            worker_id=self.worker_id,
            journal_id=journal_id,
            leases=open_rows(Leases, self._settings, self.worker_id),
            store=self._store,
            load=self.health.progress.ticking(HEARTBEAT, self._load),
            outage=self._outage,
            on_foreign_journal=self.stop.fail,
            on_run_id=self._restore.redis_is,
            forgets=self._own_journal is not None,
            observers=self.health.observers,
        )

    def _make_scheduler(self) -> Scheduler:
        worker = self._settings.worker
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
            settings=self._settings,
            worker_id=self.worker_id,
            handlers=self._handlers,
            outlives=self._own_journal is None,
            store=self._store,
            redis_away=self._redis_away,
            observers=self.health.observers,
            scheduler=self._scheduler,
            buffer=self._buffer,
            teller=self._teller,
            sweeps=self._make_journal(),
            payloads=Revival(
                store=self._store,
                kafka=self._settings.kafka,
                handlers={one.topic: one for one in self._handlers},
                redis_away=self._redis_away,
            ),
            may_sweep=self._liveness.may_sweep,
            may_take=self.health.progress.ticking(INTAKE, self._may_take),
            wake=self.pool.wake,
            on_end=self._reader_ended,
            open_source=self._open_source,
            has_any=lambda places: self.worker.has_any(places),
            gates=self._gates,
            full=lambda: self._scheduler.full,
            features=self._features,
        )

    def _make_worker(self) -> Worker:
        outlives = self._own_journal is None
        return Worker(
            worker_id=self.worker_id,
            scheduler=self._scheduler,
            journal=self._journal,
            pool=self.pool,
            teller=self._teller,
            lease=self._liveness,
            limits=Limits(
                slots=self._settings.worker.slots,
                journal_wait_s=self._settings.journal.wait_s,
                looks_every_s=self._settings.journal.lease_s,
                # A journal of one's own forgets on purpose, and loses nothing while we live.
                remembered_bytes=LIMIT_BYTES if outlives else 0,
            ),
            features=self._features,
            statuses=self._store if outlives else None,
        )

    def _make_sweeper(self, core: Core) -> Sweeper:
        return Sweeper(
            journal=core.sweeps,
            teller=self._teller,
            worker_id=self.worker_id,
            handlers=core.by_topic,
            payloads=core.payloads,
            statuses=self._store,
            revive=self.worker.revive,
            room=lambda: self.worker.room_for_revived,
            lease_s=self._settings.journal.lease_s,
            may_sweep=self._liveness.may_sweep,
            features=self._features,
            alive=self._store.alive,
        )

    def _make_probe(self) -> Probe:
        return Probe(
            settings=self._settings.worker,
            worker=self.worker,
            buffer=self._buffer,
            scheduler=self._scheduler,
            pausing=[one for one in self._features if isinstance(one, Pausing)],
            pool=self.pool,
            teller=self._teller,
            liveness=self._liveness,
            redis=self._outage,
        )


def _of_feature(one: Feature) -> Component:
    return Component(one.name, one.start, one.leave, one.has_left, one.stop, one.stop_s)
