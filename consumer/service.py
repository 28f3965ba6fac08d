"""A worker as a process: everything started in order, run, drained, and closed in order.

Order of starting: handlers, journal, Redis, lease, pool, and Kafka last, since children must exist
before Kafka clients do and nothing may be read that cannot be run. Order of ending: no more
reading, what waits is given up, what runs is finished, statuses are told, the lease is released.
"""

from __future__ import annotations

import gc
import os
import secrets
import socket
import sys
from collections.abc import Mapping

from consumer.buffer import Buffer
from consumer.handlers import Registry
from consumer.intake import Intake
from consumer.journal import Journal, JournalUnavailable, Leases
from consumer.kafka_source import KafkaSource
from consumer.liveness import Liveness, check_journal
from consumer.pool import Pool, PoolSettings
from consumer.stop import Stop
from consumer.sweeper import Sweeper
from consumer.teller import Teller
from consumer.worker import Worker
from feedback.clock import monotonic_s
from feedback.errors import ExitCode, NotAvailable, SettingsError
from feedback.logs import EventLog
from feedback.redis_server import connect
from feedback.settings import Settings
from feedback.store import StatusStore

log = EventLog("onceward.service")

TELL_TIMEOUT_S = 3.0
INTAKE_END_S = 10.0


def new_worker_id() -> str:
    """Return `<host>-<pid>-<random>`: one for the life of this process (contract, section 2)."""
    host = "".join(c if c.isalnum() or c in "._-" else "-" for c in socket.gethostname())[:64]
    return f"{host}-{os.getpid()}-{secrets.token_hex(4)}"


class Service:
    """One worker process, from its start to its exit code.

    Args:
        settings: checked settings with at least one handler module.

    Raises:
        SettingsError: no handlers, handlers that do not import, a journal of another version or
            of another group's making.
        NotAvailable: a server or a topic is not there.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.worker_id = new_worker_id()
        registry = _registry(settings)
        self._topics = registry.topics
        self._buffer = Buffer(settings.worker.buffer_size)
        self._journal = self._open_journal()
        self._journal.require_current()
        journal_id = self._journal.journal_id()
        self._redis = connect(settings.redis)
        self._store = StatusStore(self._redis, settings.kafka.group, settings.redis)
        check_journal(self._store, journal_id)
        self._teller = Teller(self._store)
        self._pool = Pool(settings=_pool_settings(settings))
        self._stop = Stop(on_stop=self._pool.wake)
        self._liveness = Liveness(
            settings=settings,
            worker_id=self.worker_id,
            journal_id=journal_id,
            leases=Leases(
                settings.journal.url,
                group=settings.kafka.group,
                worker_id=self.worker_id,
                statement_timeout_s=settings.journal.timeout_s,
            ),
            store=self._store,
            load=self._load,
            on_foreign_journal=self._stop.fail,
        )
        self._sweeper = Sweeper(
            journal=self._open_journal(),
            teller=self._teller,
            lease_s=settings.journal.lease_s,
            may_sweep=self._liveness.may_sweep,
        )
        self._worker = Worker(
            worker_id=self.worker_id,
            buffer=self._buffer,
            journal=self._journal,
            pool=self._pool,
            teller=self._teller,
            lease=self._liveness,
            slots=settings.worker.slots,
            journal_wait_s=settings.journal.wait_s,
            on_backlog=_share_interpreter,
        )
        self._intake = Intake(
            settings=settings,
            worker_id=self.worker_id,
            registry=registry,
            store=self._store,
            buffer=self._buffer,
            open_source=lambda: _open_source(settings, registry),
            may_take=self._may_take,
            on_buffered=self._pool.wake,
            on_end=self._intake_ended,
        )

    def run(self) -> ExitCode:
        """Work until SIGTERM or SIGINT; return the exit code of contract section 11.

        Raises:
            OncewardError: what ended the worker otherwise, after an orderly drain.
        """
        with self._stop.listening():
            self._liveness.start()
            self._teller.start()
            self._pool.start()
            self._sweeper.start()
            self._intake.start()
            # What was imported stays: the collector need not look through it again and again.
            gc.freeze()
            log.info("worker.started", worker_id=self.worker_id, topics=",".join(self._topics))
            try:
                while not self._stop.asked:
                    self._worker.turn()
            finally:
                code = self._drain()
        if self._stop.fault is not None:
            raise self._stop.fault
        return code

    # ending --------------------------------------------------------------------------------

    def _drain(self) -> ExitCode:
        log.info("worker.draining", held=self._worker.held, waiting=len(self._buffer))
        cut = 0
        try:
            cut = self._finish_in_order()
        except Exception as fault:
            # What can still be told and given back is; the fault ends the worker afterwards.
            self._stop.fail(fault)
        finally:
            self._close()
        log.info("worker.stopped", cut=cut)
        return ExitCode.CUT if cut else ExitCode.FINE

    def _finish_in_order(self) -> int:
        deadline_s = monotonic_s() + self._settings.worker.drain_timeout_s
        self._worker.taking = False
        self._intake.stop()
        self._run_until_idle(deadline_s)
        # Before the pool ends, since the intake wakes it, and before the last is given up.
        if not self._intake.join(INTAKE_END_S):
            log.warning("intake.not_ended")
        self._give_up_waiting()
        return self._end_pool()

    def _run_until_idle(self, deadline_s: float) -> None:
        while monotonic_s() < deadline_s and not self._stop.at_once:
            self._give_up_waiting()
            if self._worker.idle and self._intake.join(0.05) and not len(self._buffer):
                return
            self._worker.turn()

    def _give_up_waiting(self) -> None:
        # Again and again: what the intake committed while it was stopping has no owner either.
        self._worker.give_up(self._buffer.take(len(self._buffer)), code="")

    def _end_pool(self) -> int:
        if not self._worker.held and self._worker.idle:
            self._pool.stop(1.0)
            return 0
        try:
            cut = self._worker.cut()
        except JournalUnavailable as error:
            log.error("worker.cut_unwritten", runs=self._worker.held, reason=error.reason)
            return max(1, self._worker.held)
        log.warning("worker.cut", runs=cut)
        return cut

    def _close(self) -> None:
        self._pool.stop(0.0)
        self._sweeper.stop()
        self._liveness.stop()
        try:
            self._worker.write_rest()
            self._teller.flush(TELL_TIMEOUT_S)
            self._worker.write_rest()
        except JournalUnavailable as error:
            log.warning("rest.not_written", reason=error.reason)
            self._teller.flush(TELL_TIMEOUT_S)
        self._teller.stop()
        self._liveness.release()
        self._journal.close()
        self._store.close()

    # what others call ----------------------------------------------------------------------

    def _may_take(self) -> bool:
        return not self._worker.journal_away and self._liveness.lease_holds(monotonic_s())

    def _intake_ended(self, error: BaseException | None) -> None:
        if error is not None:
            self._stop.fail(error)
        self._pool.wake()

    def _load(self) -> Mapping[str, object]:
        return {
            "held": self._worker.held,
            "waiting": len(self._buffer),
            "slots": self._settings.worker.slots,
        }

    def _open_journal(self) -> Journal:
        section = self._settings.journal
        return Journal(
            section.url,
            group=self._settings.kafka.group,
            worker_id=self.worker_id,
            statement_timeout_s=section.timeout_s,
        )


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
        prefetch=worker.prefetch,
        max_result_bytes=worker.max_result_bytes,
        journal_url=settings.journal.url,
        start_timeout_s=worker.start_timeout_s,
    )


def _open_source(settings: Settings, registry: Registry) -> KafkaSource:
    source = KafkaSource(settings.kafka, registry.topics)
    missing = source.missing(registry.topics)
    if missing:
        source.close()
        raise NotAvailable(
            f"Kafka at {settings.kafka.bootstrap_servers} has no topic {', '.join(missing)}: "
            "create it, or correct the handler's topic"
        )
    return source
