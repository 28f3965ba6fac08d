"""The parts of a worker, made and connected; `service` starts and ends them."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from consumer import telling
from consumer.dead_letters.dead_letters import DeadLetters
from consumer.dead_letters.making import make_dead_letters, make_evidence
from consumer.delivery import Delivery
from consumer.handlers import Registry
from consumer.health import Health
from consumer.health.probe import Probe
from consumer.health.progress import HEARTBEAT, INTAKE
from consumer.health.watched import (
    WatchedBuffer,
    WatchedJournal,
    WatchedLeases,
    WatchedSource,
    WatchedStore,
)
from consumer.heartbeat import check_journal
from consumer.intake import Intake
from consumer.journal import Journal, Row
from consumer.journal.republish import Republication
from consumer.liveness import Liveness
from consumer.outage import Outage
from consumer.pool import Pool, PoolSettings
from consumer.republisher import Republisher
from consumer.retries.overdue import OverdueRetries
from consumer.retries.retries import Retries
from consumer.revival import Revival
from consumer.stop import Stop
from consumer.sweeper import Sweeper
from consumer.teller import Teller
from consumer.worker import Worker
from feedback.clock import monotonic_s
from feedback.errors import NotAvailable, SettingsError
from feedback.redis_server import connect
from feedback.settings import Settings
from feedback.statuses import StatusWrite
from feedback.store import StatusStore


def new_worker_id() -> str:
    """Return `<host>-<pid>-<random>`: one for the life of this process (contract, section 2)."""
    host = "".join(c if c.isalnum() or c in "._-" else "-" for c in socket.gethostname())[:64]
    return f"{host}-{os.getpid()}-{secrets.token_hex(4)}"


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
        self.settings = settings
        self.worker_id = new_worker_id()
        registry = _registry(settings)
        self.topics = registry.topics
        self.health = Health(settings=settings, worker_id=self.worker_id)
        self.progress = self.health.progress
        self.buffer = WatchedBuffer(
            settings.worker.buffer_size, progress=self.progress, metrics=self.health.metrics
        )
        self.journal = self._open_journal()
        self.journal.require_current()
        journal_id = self.journal.journal_id()
        self._redis = connect(settings.redis)
        self.store = StatusStore(self._redis, settings.kafka.group, settings.redis)
        check_journal(self.store, journal_id)
        self._outage = Outage("redis")
        self.teller = self._make_teller()
        self.republisher = self._make_republisher()
        self.pool = Pool(settings=_pool_settings(settings))
        self.stop = Stop(on_stop=self.pool.wake)
        self._leases = self._make_leases()
        self.liveness = self._make_liveness(journal_id)
        self._evidence = make_evidence(settings, self.topics)
        self.retries = Retries(
            settings, registry.handlers, wake=self.pool.wake, on_end=self._intake_ended
        )
        self.worker = self._make_worker()
        self.dead_letters = self._make_dead_letters()
        self.sweeper = self._make_sweeper(registry)
        self.intake = self._make_intake(registry)
        self.probe = Probe(
            settings=settings.worker,
            worker=self.worker,
            buffer=self.buffer,
            pool=self.pool,
            teller=self.teller,
            leases=self._leases,
            redis=self._outage,
        )

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
            "waiting": len(self.buffer),
            "slots": self.settings.worker.slots,
        }

    def _make_teller(self) -> Teller:
        settings = self.settings
        store = WatchedStore(
            self._redis,
            settings.kafka.group,
            settings.redis,
            progress=self.progress,
            metrics=self.health.metrics,
        )
        return Teller(store, outage=self._outage, resend_after_s=settings.client.resend_after_s)

    def _make_leases(self) -> WatchedLeases:
        section = self.settings.journal
        return WatchedLeases(
            section.url,
            group=self.settings.kafka.group,
            worker_id=self.worker_id,
            statement_timeout_s=section.timeout_s,
            progress=self.progress,
        )

    def _make_liveness(self, journal_id: str) -> Liveness:
        return Liveness(
            settings=self.settings,
            worker_id=self.worker_id,
            journal_id=journal_id,
            leases=self._leases,
            store=self.store,
            load=self.progress.ticking(HEARTBEAT, self._load),
            outage=self._outage,
            on_foreign_journal=self.stop.fail,
            on_run_id=self.republisher.redis_is,
        )

    def _make_worker(self) -> Worker:
        return Worker(
            worker_id=self.worker_id,
            buffer=self.buffer,
            journal=self.journal,
            pool=self.pool,
            teller=self.teller,
            lease=self.liveness,
            slots=self.settings.worker.slots,
            journal_wait_s=self.settings.journal.wait_s,
            on_backlog=_share_interpreter,
            metrics=self.health.metrics,
            evidence=self._evidence,
            due=self.retries.due,
            on_retrying=self.retries.send,
        )

    def _make_dead_letters(self) -> DeadLetters:
        return make_dead_letters(
            self.settings,
            worker_id=self.worker_id,
            topics=self.topics,
            evidence=self._evidence,
            store=self.store,
            redis_away=lambda: self._outage.is_on,
            may_sweep=self.liveness.may_sweep,
            metrics=self.health.metrics,
        )

    def _make_intake(self, registry: Registry) -> Intake:
        return Intake(
            settings=self.settings,
            worker_id=self.worker_id,
            registry=registry,
            teller=self.teller,
            buffer=self.buffer,
            open_source=lambda: self._open_source(registry.topics),
            may_take=self.progress.ticking(INTAKE, self._may_take),
            on_buffered=self.pool.wake,
            on_end=self._intake_ended,
        )

    def _make_republisher(self) -> Republisher:
        settings = self.settings
        return Republisher(
            republication=Republication(
                settings.journal.url,
                group=settings.kafka.group,
                worker_id=self.worker_id,
                statement_timeout_s=settings.journal.timeout_s,
            ),
            store=self.store,
            holding=self._holding,
            backlog=lambda: self.teller.backlog,
            status_ttl_s=settings.redis.status_ttl_s,
            resend_after_s=settings.client.resend_after_s,
            lease_s=settings.journal.lease_s,
        )

    def _holding(self) -> Iterator[StatusWrite]:
        for one in self.buffer.waiting:
            if isinstance(one, Delivery):
                yield telling.accepted(one, worker_id=self.worker_id)
        yield from self.worker.holding()

    def _make_sweeper(self, registry: Registry) -> Sweeper:
        handlers = {handler.topic: handler for handler in registry.handlers}
        journal = self._open_journal()
        payloads = Revival(
            store=self.store,
            kafka=self.settings.kafka,
            handlers=handlers,
            redis_away=lambda: self._outage.is_on,
        )
        overdue = OverdueRetries(
            journal=journal,
            handlers=handlers,
            payloads=payloads,
            send=self.retries.send,
            buffer=self.retries.due,
            on_due=self.pool.wake,
            tell_ended=self._tell_ended,
        )
        return Sweeper(
            journal=journal,
            teller=self.teller,
            worker_id=self.worker_id,
            handlers=handlers,
            payloads=payloads,
            revive=self.worker.revive,
            room=lambda: self.worker.room_for_revived,
            lease_s=self.settings.journal.lease_s,
            may_sweep=self.liveness.may_sweep,
            metrics=self.health.metrics,
            overdue=overdue.sweep,
        )

    def _tell_ended(self, rows: Iterable[Row]) -> None:
        self.teller.tell([telling.from_row(row) for row in rows])

    def _open_journal(self) -> Journal:
        section = self.settings.journal
        return WatchedJournal(
            section.url,
            group=self.settings.kafka.group,
            worker_id=self.worker_id,
            statement_timeout_s=section.timeout_s,
            metrics=self.health.metrics,
        )

    def _open_source(self, topics: Sequence[str]) -> WatchedSource:
        kafka = self.settings.kafka
        source = WatchedSource(kafka, topics, progress=self.progress, metrics=self.health.metrics)
        missing = source.missing(topics)
        if missing:
            source.close()
            raise NotAvailable(
                f"Kafka at {kafka.bootstrap_servers} has no topic {', '.join(missing)}: "
                "create it, or correct the handler's topic"
            )
        self.probe.source = source
        return source


def _share_interpreter(backlog: bool) -> None:
    """Let threads change often while nothing queues, and seldom while something does.

    kafka-python's loop computes for milliseconds after each fetch, and at Python's 5 ms the claim
    of what it brought waits for that: 1 ms of 9 at the median of 50/s. With a backlog the changes
    themselves cost 15 % of the processor.
    """
    sys.setswitchinterval(0.005 if backlog else 0.0005)


def _registry(settings: Settings) -> Registry:
    if not settings.worker.handlers:
        raise SettingsError(
            "[worker] handlers: name the modules that hold your handlers, "
            'for example handlers = ["payments.handlers"]'
        )
    return Registry.load(settings.worker.handlers)


def _pool_settings(settings: Settings) -> PoolSettings:
    worker = settings.worker
    return PoolSettings(
        handlers=worker.handlers,
        group=settings.kafka.group,
        processes=worker.processes,
        slots_per_process=worker.slots_per_process,
        spare_processes=worker.spare_processes,
        prefetch=worker.prefetch,
        max_result_bytes=worker.max_result_bytes,
        journal_url=settings.journal.url,
        start_timeout_s=worker.start_timeout_s,
        memory_limit_bytes=worker.memory_limit_bytes or None,
        max_requests_per_child=worker.max_requests_per_child or None,
    )
