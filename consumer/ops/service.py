"""A worker as a process: the components started in order, the loop, the drain, and the end.

`components` has the list and the reasons for its order, `drain` the end of the runs.
"""

from __future__ import annotations

import gc
from contextlib import ExitStack

from consumer.handlers.fingerprint import HandlersChanged
from consumer.ops.build import Build
from consumer.ops.component import started
from consumer.ops.components import components_of
from consumer.ops.drain import Drain
from consumer.ops.health.progress import LOOP
from consumer.ops.log_level import LogLevelSignals
from feedback.errors import ExitCode, NotAvailable
from feedback.logs import EventLog
from feedback.settings.settings import Settings

log = EventLog("onceward.service")


class Service:
    """One worker process, from its start to its exit code.

    Args:
        settings: checked settings with at least one handler module.
        levels: the signals that change the level of the logs.

    Raises:
        SettingsError: no handlers, handlers that do not import, a journal of another version or
            of another group's making.
        NotAvailable: a server or a topic is not there.
    """

    def __init__(self, settings: Settings, levels: LogLevelSignals) -> None:
        self._levels = levels
        self._built = built = Build(settings)
        self._stop, self._pool = built.stop, built.pool
        self._components = tuple(components_of(built))
        self._drain = Drain(
            worker=built.worker,
            pool=built.pool,
            readers=self._components[::-1],
            stop=built.stop,
            drain_timeout_s=settings.worker.drain_timeout_s,
        )

    def run(self) -> ExitCode:
        """Work until SIGTERM or SIGINT; return the exit code (docs: Exit codes).

        Raises:
            OncewardError: another cause ended the worker, after an orderly drain.
        """
        built = self._built
        with self._stop.listening():
            ends = started(self._components)
            # Imported modules stay: the collector need not look through them again and again.
            gc.freeze()
            topics = ",".join(built.topics)
            log.info("worker.started", worker_id=built.worker_id, topics=topics)
            try:
                while not self._stop.asked:
                    built.health.progress.tick(LOOP)
                    self._levels.apply(self._pool.set_log_level)
                    built.worker.turn()
                    self._require_children()
            finally:
                code = self._end(ends)
        if self._stop.fault is not None:
            raise self._stop.fault
        return code

    def _end(self, ends: ExitStack) -> ExitCode:
        worker = self._built.worker
        log.info("worker.draining", held=worker.held, waiting=len(worker.scheduler))
        self._built.health.drain()
        cut = 0
        with ends:
            try:
                cut = self._drain.run()
            except Exception as fault:
                # Statuses are still written and requests given back; the fault ends the worker
                # afterwards.
                self._stop.fail(fault)
            finally:
                self._pool.stop(0.0)
        log.info("worker.stopped", cut=cut)
        return ExitCode.CUT if cut else ExitCode.FINE

    def _require_children(self) -> None:
        """Let the worker end when no child can be started, or only one that has other handlers.

        One that runs nothing must not live, nor one that judges by old declarations.
        """
        if self._pool.is_outdated:
            self._stop.fail(HandlersChanged())
        if self._pool.broken is not None:
            why = f"no process can be started for handlers: {self._pool.broken}"
            self._stop.fail(
                NotAvailable(f"{why}. Correct what it names and start the worker again")
            )
