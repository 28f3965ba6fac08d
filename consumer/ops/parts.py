"""The parts of a worker, made and connected; `service` starts and ends them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from consumer.features.alerts.making import make_alerts
from consumer.features.batches.batch_intake import BatchIntake
from consumer.features.collapse.collapsing import Collapsing
from consumer.features.dead_letters.making import make_dead_letters, make_evidence
from consumer.features.outcomes.making import make_outcomes, outcome_topics
from consumer.features.outcomes.news import News
from consumer.features.pausing.making import make_pausing, make_watching
from consumer.features.retries.retries import Retries
from consumer.features.waits.private_journal import NO_JOURNAL, PrivateJournal
from consumer.features.waits.waits import Waits
from consumer.handlers.checks.waits import require_no_journal
from consumer.handlers.declaration import DeliveryKind, Handler
from consumer.handlers.delivery import Delivery
from consumer.intake.buffer import Buffer
from consumer.intake.intake import Intake
from consumer.intake.kafka_thread import Threads
from consumer.journal import Journal, Leases
from consumer.loop.ended_runs import LIMIT_BYTES
from consumer.loop.feature import Feature
from consumer.loop.limits import Limits
from consumer.loop.order.unclaimed import first_unclaimed
from consumer.loop.payload_lookup import Revival
from consumer.loop.scheduler import Scheduler
from consumer.loop.sweeper import Sweeper
from consumer.loop.worker import Worker
from consumer.ops.health import Health
from consumer.ops.health.probe import Probe
from consumer.ops.health.progress import HEARTBEAT, INTAKE
from consumer.ops.making import (
    load_registry,
    make_republisher,
    new_worker_id,
    open_source,
)
from consumer.ops.signals import Stop
from consumer.pool.making import make_pool
from consumer.status import status_messages as telling
from consumer.status.availability import ServerOutage
from consumer.status.heartbeat import check_journal
from consumer.status.liveness import Liveness
from consumer.status.status_writer import StatusWriter
from feedback.clock import monotonic_s
from feedback.kafka.source import KafkaSource, Partition, Unclaimed
from feedback.observer import Observer
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import Settings
from feedback.statuses import StatusWrite


class Parts:
    """Everything of one worker, nothing of it started.

    Args:
        settings: checked settings with at least one handler module.

    Raises:
        SettingsError: no handlers, handlers that do not import, a journal of another version or
            of another group's making.
        NotAvailable: a server is not there.
    """

    def __init__(self, settings: Settings) -> None:
        registry = load_registry(settings)
        self._own_journal: PrivateJournal | None = None
        if not settings.journal.url:
            require_no_journal(registry.handlers)
            self._own_journal = PrivateJournal(settings)
            settings = self._own_journal.settings
        self.settings = settings
        self.worker_id = new_worker_id()
        self.topics = registry.topics
        self._outcomes = outcome_topics(registry.handlers)
        self.health = Health(settings=settings, worker_id=self.worker_id)
        self.progress = self.health.progress
        observers = self.health.observers
        self.buffer = Buffer(settings.worker.buffer_size, observers)
        self.journal = self._make_journal(observers)
        self.journal.require_current()
        journal_id = NO_JOURNAL if self._own_journal else self.journal.journal_id()
        redis = connect(settings.redis)
        self.store = StatusStore(redis, settings.kafka.group, settings.redis)
        check_journal(self.store, journal_id)
        self._outage = ServerOutage("redis")
        self.alerts = make_alerts(
            settings,
            worker_id=self.worker_id,
            store=self.store,
            redis_away=self._redis_away,
            observers=observers,
        )
        self.teller = StatusWriter(
            StatusStore(redis, settings.kafka.group, settings.redis, observers),
            outage=self._outage,
            resend_after_s=settings.client.resend_after_s,
            on_tell=self._hear,
            may_be_behind=self._own_journal is None,
        )
        self.republisher = make_republisher(
            settings,
            worker_id=self.worker_id,
            store=self.store,
            holding=self._holding,
            teller=self.teller,
        )
        self.pool = make_pool(settings, registry.handlers)
        self.stop = Stop(on_stop=self.pool.wake)
        self.liveness = self._make_liveness(journal_id)
        self.pausing = make_pausing(
            settings,
            worker_id=self.worker_id,
            topics=self.topics,
            alerts=self.alerts,
            wake=self.pool.wake,
        )
        self.pauses = make_watching(settings, self.pausing)
        self._gates = (self.pausing,)
        self.scheduler = Scheduler(
            self.buffer,
            Buffer(settings.worker.buffer_size),
            order_held_limit=settings.worker.order_held_limit,
            order_held_limit_bytes=settings.worker.order_held_limit_bytes,
            gates=self._gates,
            gathering=[one.topic for one in registry.handlers if one.collapse is not None],
        )
        sweeps = self._make_journal()
        handlers = {one.topic: one for one in registry.handlers}
        payloads = Revival(
            store=self.store, kafka=settings.kafka, handlers=handlers, redis_away=self._redis_away
        )
        self.retries = Retries(
            settings,
            registry.handlers,
            due=self.scheduler.due,
            journal=sweeps,
            payloads=payloads,
            tell=self.teller.tell,
            wake=self.pool.wake,
            on_end=self._intake_ended,
            gates=self._gates,
        )
        self.waits = Waits(
            settings,
            worker_id=self.worker_id,
            handlers=registry.handlers,
            outlives=self._own_journal is None,
            store=self.store,
            redis_away=self._redis_away,
            buffer=self.buffer,
            tell=self.teller.tell,
            wake=self.pool.wake,
            on_end=self._intake_ended,
            gates=self._gates,
        )
        listeners = (self.waits.ends, *self.health.metrics)
        self.dead_letters = make_dead_letters(
            settings,
            worker_id=self.worker_id,
            topics=self.topics,
            evidence=make_evidence(settings, self.topics),
            store=self.store,
            redis_away=self._redis_away,
            may_sweep=self.liveness.may_sweep,
            listeners=listeners if self.alerts is None else (*listeners, self.alerts),
        )
        self.outcomes = make_outcomes(
            settings,
            self._outcomes,
            worker_id=self.worker_id,
            news=News(self._outcomes.keys()),
            may_sweep=self.liveness.may_sweep,
            listeners=listeners,
        )
        self._batches: list[BatchIntake] = []
        self.intake = self._make_intakes(registry.handlers)
        self._features: tuple[Feature, ...] = (
            *self._gates,
            self.retries,
            self.waits,
            self.dead_letters,
            self.outcomes,
            Collapsing(self.scheduler.lanes),
            *self._batches,
            *self.health.metrics,
        )
        self.worker = self._make_worker()
        self.sweeper = Sweeper(
            journal=sweeps,
            teller=self.teller,
            worker_id=self.worker_id,
            handlers=handlers,
            payloads=payloads,
            statuses=self.store,
            revive=self.worker.revive,
            room=lambda: self.worker.room_for_revived,
            lease_s=settings.journal.lease_s,
            may_sweep=self.liveness.may_sweep,
            features=self._features,
            alive=self.store.alive,
        )
        self.probe = Probe(
            settings=settings.worker,
            worker=self.worker,
            buffer=self.buffer,
            scheduler=self.scheduler,
            pausing=self.pausing,
            pool=self.pool,
            teller=self.teller,
            liveness=self.liveness,
            redis=self._outage,
        )

    def _redis_away(self) -> bool:
        return self._outage.is_on

    def _may_take(self) -> bool:
        # What is read before a child can run it would only wait, and be LOST with this worker.
        is_able = self.pool.load.ready > 0 and not self.worker.journal_away
        return is_able and self.liveness.lease_holds(monotonic_s())

    def _intake_ended(self, error: BaseException | None) -> None:
        if error is not None:
            self.stop.fail(error)
        self.pool.wake()

    def _load(self) -> Mapping[str, object]:
        return {
            "held": self.worker.held,
            "waiting": len(self.scheduler),
            "slots": self.settings.worker.slots,
        }

    def _make_journal(self, observers: Sequence[Observer] = ()) -> Journal:
        section = self.settings.journal
        return Journal(
            section.url,
            group=self.settings.kafka.group,
            worker_id=self.worker_id,
            statement_timeout_s=section.timeout_s,
            outcome_topics=self._outcomes.keys(),
            observers=observers,
        )

    def _make_liveness(self, journal_id: str) -> Liveness:
        return Liveness(
            settings=self.settings,
            worker_id=self.worker_id,
            journal_id=journal_id,
            leases=Leases(
                self.settings.journal.url,
                group=self.settings.kafka.group,
                worker_id=self.worker_id,
                statement_timeout_s=self.settings.journal.timeout_s,
            ),
            store=self.store,
            load=self.progress.ticking(HEARTBEAT, self._load),
            outage=self._outage,
            on_foreign_journal=self.stop.fail,
            on_run_id=self.republisher.redis_is,
            forgets=self._own_journal is not None,
            observers=self.health.observers,
        )

    def _make_worker(self) -> Worker:
        return Worker(
            worker_id=self.worker_id,
            scheduler=self.scheduler,
            journal=self.journal,
            pool=self.pool,
            teller=self.teller,
            lease=self.liveness,
            limits=Limits(
                slots=self.settings.worker.slots,
                journal_wait_s=self.settings.journal.wait_s,
                looks_every_s=self.settings.journal.lease_s,
                # A journal of one's own forgets on purpose, and loses nothing while we live.
                remembered_bytes=LIMIT_BYTES if self._own_journal is None else 0,
            ),
            features=self._features,
            statuses=self.store if self._own_journal is None else None,
        )

    def _make_intakes(self, handlers: Sequence[Handler]) -> Threads:
        """Return who reads requests.

        Those of batches apart, since they wait for their ends; those that collapse, since what
        the lanes take is not bound by the buffer.
        """
        batched = [one for one in handlers if one.delivery is DeliveryKind.BATCH]
        collapsing = [one for one in handlers if one.collapse is not None]
        others = [one for one in handlers if one not in batched and one not in collapsing]
        made: list[Intake] = []
        if collapsing:
            made.append(
                Intake(
                    **self._of_intake(collapsing),
                    open_source=lambda: self._open_source(collapsing, self._unclaimed),
                    gathers=True,
                    name="collapse-intake",
                )
            )
        if others:
            made.append(
                Intake(
                    **self._of_intake(others),
                    open_source=lambda: self._open_source(others, self._unclaimed),
                    before_commit=[self.waits.preparing],
                )
            )
        if batched:
            worker = self.settings.worker
            batches: BatchIntake = BatchIntake(
                **self._of_intake(batched),
                open_source=lambda: self._open_source(batched, batches.uncommitted),
                limit=worker.batch_size,
                has_any=lambda places: self.worker.has_any(places),
                end_s=worker.drain_timeout_s,
            )
            self._batches.append(batches)
            made.append(batches)
        return Threads(made)

    def _of_intake(self, handlers: Sequence[Handler]) -> dict[str, Any]:
        return {
            "settings": self.settings,
            "worker_id": self.worker_id,
            "handlers": handlers,
            "teller": self.teller,
            "buffer": self.buffer,
            "may_take": self.progress.ticking(INTAKE, self._may_take),
            "on_buffered": self.pool.wake,
            "on_end": self._intake_ended,
            "gates": self._gates,
            "full": lambda: self.scheduler.full,
        }

    def _hear(self, told: Sequence[StatusWrite]) -> None:
        self.waits.ends.hear(told)
        for one in self._batches:
            one.hear(told)

    def start_own(self) -> None:
        """Let the journal that nobody else has forget what has ended."""
        if self._own_journal is not None:
            self._own_journal.start()

    def close_own(self) -> None:
        """Remove the journal that nobody else has; everything has ended before."""
        if self._own_journal is not None:
            self._own_journal.stop()

    def _holding(self) -> Iterator[StatusWrite]:
        for one in self.scheduler.waiting:
            if isinstance(one, Delivery):
                yield telling.accepted(one, worker_id=self.worker_id)
        yield from self.worker.holding()

    def _open_source(self, handlers: Sequence[Handler], unclaimed: Unclaimed) -> KafkaSource:
        source = open_source(self.settings, handlers, self.health.observers)
        self.probe.sources.append(source)
        source.unclaimed = unclaimed
        return source

    def _unclaimed(self, revoked: Collection[Partition]) -> Mapping[Partition, int]:
        return first_unclaimed(self.worker.unclaimed, revoked)
