"""The resender and the relay as processes: signals, the service manager, the exit code."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from feedback.clock import monotonic_s
from feedback.errors import ExitCode, RedisUnavailable
from feedback.logs import EventLog
from feedback.outages import log_outage
from feedback.systemd import notify, unit
from producer_client.resender.resender import Resender

log = EventLog("onceward.resender")

# A turn calls Redis a few times, each for `timeout_s` at most; one that takes longer hangs.
STALLED_S = 30.0
UNWATCHED_S = 60.0


class Stoppable(Protocol):
    """A loop that works until it is asked to stop.

    Attributes:
        turned_s: monotonic time of its last sign of life.
    """

    @property
    def turned_s(self) -> float: ...
    def start(self) -> None: ...
    def wait(self, timeout_s: float) -> bool: ...
    def stop(self) -> None: ...
    def close(self) -> None: ...


def serve(service: Stoppable) -> ExitCode:
    """Work until SIGTERM or SIGINT; the exit comes within about two seconds of it.

    Raises:
        Exception: the fault that ended it, if one did.
    """
    with _stopped_by_signals(service.stop):
        service.start()
        notify("READY=1")
        watchdog_s = unit().watchdog_s
        while not service.wait(UNWATCHED_S if watchdog_s is None else watchdog_s / 3):
            if monotonic_s() - service.turned_s < STALLED_S:
                notify("WATCHDOG=1")
        notify("STOPPING=1")
        service.close()
    return ExitCode.FINE


def run_once(resender: Resender) -> ExitCode:
    """Do one pass; NOT_AVAILABLE when a server was away, or not all could be tried.

    Raises:
        Exception: a fault in it.
    """
    with _stopped_by_signals(resender.stop):
        try:
            all_tried = resender.once()
        except RedisUnavailable as error:
            log_outage(log, "redis.away", error)
            all_tried = False
        finally:
            resender.close()
    return ExitCode.FINE if all_tried else ExitCode.NOT_AVAILABLE


@contextmanager
def _stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    before = {
        number: signal.signal(number, lambda *_: stop())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
