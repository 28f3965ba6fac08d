"""The thread that judges progress, says so, and feeds systemd's watchdog with nothing else."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from types import FrameType

from consumer.ops.health.progress import LoopProgress, stalled
from consumer.ops.health.vitals import Vitals, excused
from feedback.clock import monotonic_s
from feedback.logs import EventLog
from feedback.systemd import Unit

MAX_THREADS = 64
MAX_FRAMES = 12


def thread_stacks() -> list[str]:
    """Return one line a thread, `name: place < its caller < …`, innermost first.

    Only files, lines and functions: locals may be payloads. Bounded in threads and depth.

    >>> thread_stacks()[0].split(":")[0]
    'MainThread'
    """
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    main = threading.main_thread().ident
    frames = sorted(sys._current_frames().items(), key=lambda one: one[0] != main)
    return [
        f"{names.get(ident, 'a foreign thread')}: " + " < ".join(_places(frame))
        for ident, frame in frames[:MAX_THREADS]
    ]


def _places(frame: FrameType | None) -> Iterator[str]:
    for _ in range(MAX_FRAMES):
        if frame is None:
            return
        code = frame.f_code
        file = PurePath(*PurePath(code.co_filename).parts[-2:])
        yield f"{file}:{frame.f_lineno} {code.co_qualname}"
        frame = frame.f_back
    if frame is not None:
        yield "…"


log = EventLog("onceward.health")

LOOK_EVERY_S = 1.0
# Looks within the shortest limit, and feedings within the watchdog's patience.
LOOKS_A_LIMIT = 10
FEEDS_A_WATCHDOG = 4


class HealthWatch:
    """Looks at the worker about once a second until stopped.

    Args:
        unit: systemd's. It gets READY when the worker has children and a source, then its status
            in a line, and the signs of life.
    """

    def __init__(
        self,
        *,
        progress: LoopProgress,
        limits: Mapping[str, float],
        look: Callable[[], Vitals],
        unit: Unit,
    ) -> None:
        self._progress = progress
        self._limits = limits
        self._look = look
        self._unit = unit
        self._pause_s = _pause_s(limits, unit.watchdog_s)
        self._awake_since_s = monotonic_s()
        self._looked_s = self._awake_since_s
        self._excused_s: dict[str, float] = {}
        self._is_ready = False
        self._told = ""
        self.stalled: Mapping[str, float] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="onceward-watch", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._looked_s = self._awake_since_s = monotonic_s()
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End the thread."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    @property
    def lateness(self) -> dict[str, float]:
        """Seconds since each loop last got on, or had no reason to."""
        now_s = monotonic_s()
        return {loop: max(0.0, now_s - since_s) for loop, since_s in self._since_s().items()}

    def _since_s(self) -> dict[str, float]:
        """When each loop last got on, or had no reason to."""
        ticks, excuses = self._progress.ticks, self._excused_s.copy()
        return {
            loop: max(ticks.get(loop, 0.0), excuses.get(loop, 0.0)) for loop in {*ticks, *excuses}
        }

    def _run(self) -> None:
        while not self._stopping.wait(self._pause_s):
            self.look(monotonic_s())

    def look(self, now_s: float) -> None:
        """Judge the worker once, and report the verdict."""
        if now_s - self._looked_s > min(self._limits.values()) / 3:
            # We were late ourselves: the process stood still, and so did its loops.
            self._awake_since_s = now_s
        self._looked_s = now_s
        seen = self._look()
        self._excused_s |= dict.fromkeys(excused(seen), now_s)
        self._judge(
            stalled(self._since_s(), now_s, limits=self._limits, awake_since_s=self._awake_since_s)
        )
        self._tell(seen)

    def _judge(self, late: Mapping[str, float]) -> None:
        # Before a line is logged: the reader of our stderr may be the one that everything waits
        # for.
        before, self.stalled = self.stalled, late
        if late and not before:
            log.error("worker.stalled", **_seconds(late), stacks=thread_stacks())
        elif before and not late:
            log.warning("worker.goes_on", was_stalled=",".join(before))

    def _tell(self, seen: Vitals) -> None:
        if not self._unit.address:
            return
        lines = []
        if not self._is_ready and seen.is_open and seen.children_ready:
            self._is_ready = True
            lines.append("READY=1")
        status = f"STATUS={_in_words(seen, self.stalled)}"
        if status != self._told:
            self._told = status
            lines.append(status)
        if not self.stalled and self._unit.watchdog_s is not None:
            lines.append("WATCHDOG=1")
        if lines:
            self._unit.notify(*lines)


def _pause_s(limits: Mapping[str, float], watchdog_s: float | None) -> float:
    pauses = [LOOK_EVERY_S, min(limits.values()) / LOOKS_A_LIMIT]
    if watchdog_s is not None:
        pauses.append(watchdog_s / FEEDS_A_WATCHDOG)
    return min(pauses)


def _seconds(late: Mapping[str, float]) -> dict[str, float]:
    return {f"{loop}_s": round(late_s, 1) for loop, late_s in late.items()}


def _in_words(seen: Vitals, late: Mapping[str, float]) -> str:
    words = f"{seen.held} running or claimed, {seen.waiting} waiting"
    if seen.is_draining:
        return f"draining: {words}"
    if late:
        return f"stalled ({', '.join(late)}): {words}"
    away = {
        "Kafka": seen.kafka_away,
        "Redis": seen.redis_away,
        "the journal": seen.journal_away,
    }
    names = [name for name, is_away in away.items() if is_away]
    return f"{words}; away: {', '.join(names)}" if names else words
