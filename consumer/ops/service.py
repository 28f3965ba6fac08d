"""A worker as a process: everything started in order, run, drained, and closed in order.

Order of starting: handlers, journal, Redis, lease, pool, and Kafka last, since children must exist
before Kafka clients do and nothing may be read that cannot be run. Order of ending: no more
reading, what waits is given up, what runs is finished, statuses are told, the lease is released.
"""

from __future__ import annotations

import gc
import time

from consumer.handlers.fingerprint import HandlersChanged
from consumer.journal import JournalUnavailable
from consumer.ops.health.progress import LOOP
from consumer.ops.parts import Parts
from feedback.clock import monotonic_s
from feedback.errors import ExitCode, NotAvailable
from feedback.logs import EventLog
from feedback.settings.settings import Settings

log = EventLog("onceward.service")

TELL_TIMEOUT_S = 3.0
INTAKE_END_S = 10.0
SETTLE_S = 5.0
SETTLE_AGAIN_S = 0.2


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
        self._parts = Parts(settings)

    def run(self) -> ExitCode:
        """Work until SIGTERM or SIGINT; return the exit code of contract section 11.

        Raises:
            OncewardError: what ended the worker otherwise, after an orderly drain.
        """
        with self._parts.stop.listening():
            self._parts.health.start(self._parts.probe)
            self._parts.liveness.start()
            self._parts.pauses.start()
            self._parts.teller.start()
            if self._parts.alerts is not None:
                self._parts.alerts.start()
            self._parts.start_own()
            self._parts.pool.start()
            self._parts.sweeper.start()
            self._parts.republisher.start()
            self._parts.dead_letters.start()
            self._parts.outcomes.start()
            self._parts.retries.start()
            self._parts.waits.start()
            self._parts.intake.start()
            # What was imported stays: the collector need not look through it again and again.
            gc.freeze()
            log.info(
                "worker.started",
                worker_id=self._parts.worker_id,
                topics=",".join(self._parts.topics),
            )
            try:
                while not self._parts.stop.asked:
                    self._parts.progress.tick(LOOP)
                    self._parts.worker.turn()
                    self._require_children()
            finally:
                code = self._drain()
        if self._parts.stop.fault is not None:
            raise self._parts.stop.fault
        return code

    # ending --------------------------------------------------------------------------------

    def _drain(self) -> ExitCode:
        log.info(
            "worker.draining", held=self._parts.worker.held, waiting=len(self._parts.scheduler)
        )
        self._parts.health.drain()
        cut = 0
        try:
            cut = self._finish_in_order()
        except Exception as fault:
            # What can still be told and given back is; the fault ends the worker afterwards.
            self._parts.stop.fail(fault)
        finally:
            self._close()
        log.info("worker.stopped", cut=cut)
        return ExitCode.CUT if cut else ExitCode.FINE

    def _finish_in_order(self) -> int:
        deadline_s = monotonic_s() + self._parts.settings.worker.drain_timeout_s
        self._parts.worker.take_nothing_more()
        self._parts.intake.stop()
        self._parts.retries.stop_reading()
        self._parts.waits.stop_reading()
        self._run_until_idle(deadline_s)
        self._settle(min(deadline_s, monotonic_s() + SETTLE_S))
        # Before the pool ends, since the intake wakes it, and before the last is given up.
        if not self._parts.intake.join(INTAKE_END_S):
            log.warning("intake.not_ended")
        if not self._parts.waits.join_reading(INTAKE_END_S):
            log.warning("waits.not_ended")
        self._give_up_waiting()
        return self._end_pool()

    def _run_until_idle(self, deadline_s: float) -> None:
        while monotonic_s() < deadline_s and not self._parts.stop.at_once:
            self._give_up_waiting()
            if (
                self._parts.worker.idle
                and self._parts.intake.join(0.05)
                and not len(self._parts.scheduler)
            ):
                return
            self._parts.worker.turn()

    def _settle(self, deadline_s: float) -> None:
        """Let the journal say of each run what this worker knows, before its lease ends.

        With the journal away it is tried for a while: a database that has just failed over is the
        one that has forgotten something.
        """
        while True:
            try:
                self._parts.worker.settle()
                return
            except JournalUnavailable as error:
                if monotonic_s() >= deadline_s or self._parts.stop.at_once:
                    log.warning("runs.not_settled", reason=error.reason)
                    return
                time.sleep(SETTLE_AGAIN_S)

    def _give_up_waiting(self) -> None:
        # Again and again: what the intake committed while it was stopping has no owner either.
        self._parts.worker.give_up(self._parts.scheduler.take_all(), code="")

    def _end_pool(self) -> int:
        if not self._parts.worker.held and self._parts.worker.idle:
            self._parts.pool.stop(1.0)
            return 0
        try:
            cut = self._parts.worker.cut()
        except JournalUnavailable as error:
            log.error("worker.cut_unwritten", runs=self._parts.worker.held, reason=error.reason)
            return max(1, self._parts.worker.held)
        log.warning("worker.cut", runs=cut)
        return cut

    def _close(self) -> None:
        self._parts.pool.stop(0.0)
        self._parts.sweeper.stop()
        self._parts.pauses.stop()
        self._parts.retries.stop()
        self._parts.republisher.stop()
        self._parts.dead_letters.stop()
        self._parts.outcomes.stop()
        if self._parts.alerts is not None:
            self._parts.alerts.stop()
        self._parts.liveness.stop()
        try:
            self._parts.worker.write_rest()
            self._parts.teller.flush(TELL_TIMEOUT_S)
            self._parts.worker.write_rest()
        except JournalUnavailable as error:
            log.warning("rest.not_written", reason=error.reason)
            self._parts.teller.flush(TELL_TIMEOUT_S)
        is_told = self._parts.teller.stop()
        # The last ends were told a moment ago.
        self._parts.waits.stop()
        self._parts.liveness.release()
        self._parts.journal.close()
        if is_told:
            self._parts.store.close()
        self._parts.health.stop()
        self._parts.close_own()

    def _require_children(self) -> None:
        """Let the worker end when no child can be started, or only one that has other handlers.

        One that runs nothing must not live, nor one that judges by what is no longer declared.
        """
        if self._parts.pool.is_outdated:
            self._parts.stop.fail(HandlersChanged())
        if self._parts.pool.broken is not None:
            why = f"no process can be started for handlers: {self._parts.pool.broken}"
            self._parts.stop.fail(
                NotAvailable(f"{why}. Correct what it names and start the worker again")
            )
