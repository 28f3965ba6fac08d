"""The children of a pool: as many as it should have, each replaced when it ends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from consumer.pool import memory
from consumer.pool.child_process import ChildProcess
from consumer.pool.events import ChildFailed, Event, Started
from consumer.pool.handover import LATE_AFTER_S
from consumer.pool.job import PoolSettings
from consumer.pool.memory import MemoryGauge, MemoryVerdict
from consumer.pool.respawn_policy import RespawnPolicy, RespawnReason
from consumer.pool.watch import Watch
from feedback.clock import monotonic_s


class Supervisor:
    """Starts, replaces, retires and kills children; does nothing before it is called.

    Attributes:
        children: all that have not been buried, in the order in which they were started.
        is_ending: whether a child that ends is not replaced any more.
        is_outdated: whether a child has read other declarations than the worker's: then none is
            replaced either, since each would.
    """

    def __init__(self, settings: PoolSettings, watch: Watch) -> None:
        self.children: list[ChildProcess] = []
        self.is_ending = False
        self.is_outdated = False
        self._has_spares = False
        self._settings = settings
        self._watch = watch
        self._respawns = RespawnPolicy()
        self._gauge = MemoryGauge(settings.memory_limit_bytes)
        self._events: list[Event] = []
        self._has_news = False
        self._expected_s = math.inf

    @property
    def has_news(self) -> bool:
        """Whether there is something to act on.

        The starts of runs are not: a short run would cost its caller two turns instead of one.
        """
        return self._has_news

    def take_events(self) -> list[Event]:
        """Return the events since the last call."""
        events, self._events, self._has_news = self._events, [], False
        return events

    def _tell(self, events: Sequence[Event]) -> None:
        self._events += events
        self._has_news |= any(type(one) is not Started for one in events)

    @property
    def replaced(self) -> dict[str, int]:
        """How many children were replaced, by every `RespawnReason`."""
        return dict(self._respawns.replaced)

    @property
    def broken(self) -> str | None:
        """The last failure, when none is ready and five starts in a row have failed."""
        if any(child.is_serving for child in self.children):
            return None
        starting = (child.failures for child in self.children if not child.is_ready)
        return self._respawns.fault(starting)

    def start(self) -> None:
        """Start all, the first at once."""
        self._want(self._settings.processes)

    def set_log_level(self, level: str) -> None:
        """Change the level of the logs of all children, and of those that are started later."""
        self._settings = replace(self._settings, log_level=level)
        for child in self.children:
            child.set_log_level(level)
            self._watch.update(child)

    def keep_times(self, patience_s: float) -> float:
        """Do the tasks that are due, and return the monotonic time of the next one.

        Due are the end of children that are too late or too large, and starts that were put off.

        Args:
            patience_s: the monotonic time at which it is called again in any case.
        """
        now_s = monotonic_s()
        self._forgive(now_s)
        while (next_s := self._next_s()) <= now_s:
            self._do_due(now_s)
        self._expected_s = min(next_s, patience_s)
        return self._expected_s

    def doom(
        self, child: ChildProcess, reason: str | None, why: RespawnReason = RespawnReason.DIED
    ) -> None:
        """Kill a child; its last reports are read when it is buried."""
        self._watch.mute(child)
        child.doom(reason, why)
        self._fill_places()

    def retire(self, child: ChildProcess, why: RespawnReason, reason: str) -> None:
        """Let a child end after its jobs, and start its successor now."""
        child.retire(reason)
        self._watch.update(child)
        self._fill_places()
        if child.is_new:
            # A successor would be as large before its first job: in haste it would be a loop.
            fault = f"{reason} before its first request"
            self._respawns.try_later(child.failures + 1, fault, monotonic_s())
            return
        self._respawns.replaced[why] += 1
        self._respawns.postponed += 1
        self._start_postponed()

    def _forgive(self, now_s: float) -> None:
        """Hold no delay against a child that passed while this process stood still."""
        stood_s = now_s - self._expected_s - LATE_AFTER_S
        if stood_s > 0:
            for child in self.children:
                child.handover.forgive(stood_s, now_s)

    def _next_s(self) -> float:
        times = [child.next_s for child in self.children]
        return min(self._next_start_s(), self._gauge.due_s, *times)

    def _next_start_s(self) -> float:
        if self.is_outdated:
            return math.inf
        return self._respawns.next_s(
            one.begun_s for one in self.children if not one.is_ready and not one.is_doomed
        )

    def _do_due(self, now_s: float) -> None:
        for child in tuple(self.children):
            if child.kill_by_s <= now_s and not child.excuse():
                self.doom(child, child.kill_reason)
            elif child.next_s <= now_s:
                self._end_overdue(child, now_s)
        if self._gauge.due_s <= now_s:
            self._gauge.due_s = now_s + memory.LOOK_EVERY_S
            for child in tuple(self.children):
                self._weigh(child)
        self._start_due(now_s)

    def _end_overdue(self, child: ChildProcess, now_s: float) -> None:
        # A run that has ended by now was not too long, although its end was not yet read.
        self._catch_up(child)
        if child.is_doomed:
            return
        if child.jobs.note_overdue(now_s):
            self.doom(child, "killed, because a run was past its time limit", RespawnReason.OVERDUE)
        elif child.handover.is_over(now_s):
            self.doom(child, child.handover.reason, RespawnReason.STUCK)

    def _weigh(self, child: ChildProcess) -> None:
        used_bytes, limit_bytes = self._gauge.used_bytes(child.pid), self._gauge.limit_bytes
        if used_bytes <= limit_bytes:
            return
        self._catch_up(child)
        if child.is_doomed:
            return
        reason = memory.limit_words(used_bytes, limit_bytes)
        verdict = memory.memory_verdict(used_bytes, limit_bytes, can_wait=child.is_idle)
        if verdict is MemoryVerdict.KILL:
            self.doom(child, f"killed, because it was {reason}", RespawnReason.MEMORY)
        elif verdict is MemoryVerdict.RETIRE and child.is_serving:
            self.retire(child, RespawnReason.MEMORY, reason)

    def _catch_up(self, child: ChildProcess) -> None:
        self._tell(child.drain())
        self._place(child)

    def _read(self, child: ChildProcess) -> None:
        was_late = child.handover.is_late
        self._tell(child.receive())
        # A child that was late, and starts again what it is given, has free slots again.
        self._has_news |= was_late and not child.handover.is_late
        self._place(child)
        if child.is_retired and not child.is_doomed:
            self._watch.update(child)

    def _place(self, child: ChildProcess) -> None:
        """Let it take or leave its place by its reports."""
        if child.is_doomed:
            self._watch.mute(child)
        if child.is_doomed or child.is_spare:
            self._fill_places()

    def _bury(self, child: ChildProcess) -> None:
        self._watch.forget(child)
        self.children.remove(child)
        self._tell(child.bury())
        self.is_outdated |= child.is_outdated
        if self.is_ending:
            return
        self._fill_places()
        if self.is_outdated:
            return
        if child.is_retired:
            self._start_postponed()
            return
        now_s = monotonic_s()
        fault = child.failed_start(now_s)
        if fault is None:
            self._respawns.replaced[child.why] += 1
            self._want(1)
        else:
            self._respawns.try_later(child.failures + 1, fault, now_s)

    def _fill_places(self) -> None:
        """Give each free place to a child that is ready; start the spares when all are filled."""
        free = self._settings.processes - sum(child.is_serving for child in self.children)
        for child in self.children:
            if free and child.is_spare and child.can_serve:
                child.is_spare = False
                free -= 1
        # Not before: they would slow down the start of those that are needed.
        if not free and not self._has_spares:
            self._has_spares = True
            self._want(self._settings.spare_processes)

    def _start_postponed(self) -> None:
        """Start successors, as long as no more than every second child is a retired one.

        Were there no bound, children that grow within one long run would fill the host.
        """
        retired = sum(child.is_retired for child in self.children)
        while self._respawns.postponed and retired <= self._settings.processes:
            self._respawns.postponed -= 1
            self._want(1)

    def _want(self, count: int) -> None:
        now_s = monotonic_s()
        for _ in range(count):
            self._respawns.want(now_s)
        self._start_due(now_s)

    def _start_due(self, now_s: float) -> None:
        while self._next_start_s() <= now_s:
            self._spawn(failures=self._respawns.take_first())

    def _spawn(self, *, failures: int) -> None:
        try:
            child = ChildProcess(self._settings, failures=failures)
        except OSError as error:
            fault = f"could not be started: {error.strerror}"
            self._tell([ChildFailed(0, fault)])
            self._respawns.try_later(failures + 1, fault, monotonic_s())
            return
        self.children.append(child)
        self._watch.add(child, on_read=self._read, on_exit=self._bury)
