"""A worker as a process: the components started in order, the loop, the drain, and the end.

`components_of` has the reasons for their order, `drain` the end of the runs.

Whom a component needs when it starts stands before it, and so ends after it. Where two threads may
start in any order, the comments say whose end needs the other.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, nullcontext

from consumer.handlers.fingerprint import HandlersChanged
from consumer.loop.feature import Feature
from consumer.ops.build import Build
from consumer.ops.component import Component, started
from consumer.ops.drain import Drain, tell_rest
from consumer.ops.health.progress import LOOP
from consumer.ops.log_level import LogLevelSignals
from feedback.errors import ExitCode, NotAvailable
from feedback.logs import EventLog
from feedback.observer import Observer
from feedback.settings.settings import Settings


def components_of(built: Build) -> Iterator[Component]:
    """Yield the components of a worker; nothing of it is started."""
    if own := built.own_journal:
        # Its folder goes when nothing uses it any more.
        yield Component("private_journal", own.start, stop=own.stop, stop_s=5.0)
    # It watches from the first moment to the last, and answers the pages until then.
    health, probe = built.health, built.probe
    yield Component("health", lambda: health.start(probe), stop=health.stop, stop_s=5.0)
    if built.settings.worker.http_port:
        # Nobody reads it elsewhere. It looks at partitions, of which there are none yet.
        yield Component("lag", probe.lag.start, stop=probe.lag.stop, stop_s=1.0)
    # A mistake in a topic's name is said before anything else begins.
    yield Component("topics", built.require_topics)
    # Connections close behind all that use them.
    yield Component("redis", stop=lambda _: _close_store(built))
    yield Component("journal", stop=lambda _: built.journal.close())
    # Without a lease nothing may be read or run. Its end says to peers that they may go on with the
    # rest: so it comes after the wait topics say how requests ended.
    lease = built.liveness
    stop_s = 3 * built.settings.journal.timeout_s
    yield Component("lease", lease.start, stop=lease.stop, stop_s=stop_s)
    yield Component(
        "statuses", built.status_writer.start, stop=built.status_writer.stop, stop_s=1.0
    )
    # Children exist before Kafka clients do, and before a record is read that they run. They end in
    # the drain; this stop is for a worker that could not start.
    yield Component("children", built.pool.start, stop=built.pool.stop)
    # In the order of `build.FEATURES`. The pauses of the group are known before anything is read.
    # Dead letters and outcomes end before the wait topics and the alerts, which hear of them.
    yield from (_of_feature(one) for one in built.features if one.name)
    restore = built.restore
    yield Component("status_restore", restore.start, stop=restore.stop, stop_s=1.0)
    # Statuses are written when neither a run nor a sweep can add any, and before the wait topics
    # end: a tombstone follows the status of its client.
    rest = Component(
        "rest", stop=lambda s: tell_rest(built.worker, built.status_writer, s), stop_s=3.0
    )
    yield rest
    # It ends before the retries, since a sweep has wake-ups sent.
    sweeper = built.sweeper
    yield Component("sweeper", sweeper.start, stop=sweeper.stop, stop_s=6.0)
    # Last, since a record that is read is to be run.
    for one in built.intakes:
        yield Component("intake", one.start, leave=one.leave, has_left=one.has_left)


def _of_feature(one: Feature) -> Component:
    return Component(one.name, one.start, one.leave, one.has_left, one.stop, one.stop_s)


def _close_store(built: Build) -> None:
    # A thread that hangs in a write to Redis still uses it.
    if built.status_writer.has_ended:
        built.store.close()


log = EventLog("onceward.service")

# Objects that the collector lets pile up: about a megabyte.
GARBAGE_LIMIT = 10_000


class Service:
    """One worker process, from its start to its exit code.

    Args:
        settings: checked settings with at least one handler module.
        levels: the signals that change the level of the logs.
        observers: hear what it does.

    Attributes:
        built: its parts.

    Raises:
        SettingsError: no handlers, handlers that do not import, a journal of another version or
            of another group's making.
        NotAvailable: a server or a topic is not there.
    """

    def __init__(
        self, settings: Settings, levels: LogLevelSignals, *, observers: Sequence[Observer] = ()
    ) -> None:
        self._levels = levels
        self.built = built = Build(settings, observers)
        self._stop, self._pool = built.stop, built.pool
        self._components = tuple(components_of(built))
        self._drain = Drain(
            worker=built.worker,
            pool=built.pool,
            readers=self._components[::-1],
            stop=built.stop,
            drain_timeout_s=settings.worker.drain_timeout_s,
        )

    def run(self, *, owns_process: bool = True) -> ExitCode:
        """Work until SIGTERM or SIGINT; return the exit code (docs: Exit codes).

        Args:
            owns_process: False in a process of others: `StopSignals.ask` alone ends it, and it may
                run in any thread.

        Raises:
            OncewardError: another cause ended the worker, after an orderly drain.
        """
        built = self.built
        with self._stop.listening() if owns_process else nullcontext():
            ends = started(self._components)
            if owns_process:
                # Imported modules stay: the collector need not look through them again and again.
                gc.freeze()
                # A burst makes few cycles: the default of 700 looks 230 times in 20,000 requests,
                # for 3 % of the processor's time.
                gc.set_threshold(GARBAGE_LIMIT)
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
        worker = self.built.worker
        log.info("worker.draining", held=worker.held, waiting=len(worker.scheduler))
        self.built.health.drain()
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
