"""A worker's health as one part of its service: made first, started first, stopped last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from consumer.ops.health.probe import Probe
from consumer.ops.health.progress import (
    DISPATCH,
    HANDOVER,
    HEARTBEAT,
    INTAKE,
    LEASE,
    LOOP,
    TELLER,
    LoopProgress,
)
from consumer.ops.health.watch import HealthWatch
from feedback.logs import EventLog
from feedback.observer import Observer
from feedback.settings.settings import Settings
from feedback.systemd import unit

if TYPE_CHECKING:
    from consumer.ops.health.exposed import ExposedMetrics
    from feedback.web.page_server import PageServer

log = EventLog("onceward.health")


class Health:
    """Receives the loops' signs of life, watches them, and answers the pages.

    Args:
        observers: of others, which hear the same.

    Attributes:
        progress: for the loops to tick.
        metrics: features and listeners that count for Prometheus; none without a port.
        observers: for the parts of the worker, which report their progress to them.
        timers: those of them that only time calls: whoever tells them owes no progress.
    """

    def __init__(
        self, *, settings: Settings, worker_id: str, observers: Sequence[Observer] = ()
    ) -> None:
        self._settings = settings
        self._worker_id = worker_id
        self._unit = unit()
        self.progress = LoopProgress()
        self._exposed = _exposed(settings.worker.http_port)
        exposed = () if self._exposed is None else (self._exposed,)
        self.metrics = tuple(feature for one in exposed for feature in (one, one.durations))
        self.timers: tuple[Observer, ...] = tuple(one.calls for one in exposed)
        self.observers: tuple[Observer, ...] = (self.progress, *exposed, *observers)
        self._probe: Probe | None = None
        self._watch: HealthWatch | None = None
        self._server: PageServer | None = None

    def start(self, probe: Probe) -> None:
        """Begin to watch and to answer.

        Args:
            probe: sees the worker, from now on.

        Raises:
            NotAvailable: `http_port` cannot be listened on.
        """
        self._probe = probe
        self._watch = watch = HealthWatch(
            progress=self.progress,
            limits=limits(self._settings),
            look=probe.look,
            unit=self._unit,
        )
        if self._exposed is not None:
            self._server = self._serve(self._exposed, probe, watch)
        watch.start()

    def drain(self) -> None:
        """Report that the worker ends, on the pages and to systemd."""
        if self._probe is not None:
            self._probe.is_draining = True
        self._unit.notify("STOPPING=1", "STATUS=draining")

    def stop(self, timeout_s: float) -> None:
        """Watch no more and answer no more; without a `start` it does nothing."""
        if self._watch is not None:
            self._watch.stop(timeout_s)
        if self._server is not None:
            self._server.close()

    def _serve(self, exposed: ExposedMetrics, probe: Probe, watch: HealthWatch) -> PageServer:
        # Imported only here: a worker without a port pays neither memory nor time for it.
        from consumer.ops.health.gauges import Gauges
        from consumer.ops.health.pages import pages
        from feedback.web.page_server import PageServer

        def late() -> dict[str, float]:
            return dict(watch.stalled)

        exposed.registry.register(
            Gauges(
                look=probe.look, oldest=probe.oldest, lateness=lambda: watch.lateness, stalled=late
            )
        )
        worker = self._settings.worker
        server = PageServer(
            host=worker.http_host,
            port=worker.http_port,
            pages=pages(
                worker_id=self._worker_id,
                look=probe.look,
                oldest=probe.oldest,
                stalled=late,
                registry=exposed.registry,
            ),
        )
        log.info("health.listening", host=worker.http_host, port=server.port)
        return server


def limits(settings: Settings) -> dict[str, float]:
    """Return how many seconds each loop may take to come round.

    A call of the journal may last its `timeout_s` for a connection and again for a lock and for a
    statement; until then its silence is that of a server, of which the worker says so itself.
    """
    limit_s = max(settings.worker.stall_after_s, 3 * settings.journal.timeout_s)
    return {
        LOOP: limit_s,
        INTAKE: limit_s,
        TELLER: limit_s,
        LEASE: limit_s + settings.journal.lease_s,
        HEARTBEAT: limit_s + settings.redis.heartbeat_ttl_s,
        DISPATCH: limit_s,
        HANDOVER: limit_s,
    }


def _exposed(http_port: int) -> ExposedMetrics | None:
    if not http_port:
        return None
    from consumer.ops.health.exposed import ExposedMetrics

    return ExposedMetrics()
