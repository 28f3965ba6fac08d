"""The children of a pool: as many as it should have, replaced for whatever reason they end."""

from __future__ import annotations

import math

from consumer.pool import memory
from consumer.pool.events import ChildFailed, Event
from consumer.pool.handover import LATE_AFTER_S
from consumer.pool.job import PoolSettings
from consumer.pool.member import Member
from consumer.pool.memory import MemoryGauge, Verdict
from consumer.pool.succession import Succession, Why
from consumer.pool.watch import Watch
from feedback.clock import monotonic_s


class Crew:
    """Starts, replaces, retires and kills children; does nothing before it is called.

    Attributes:
        members: all that have not been buried, in the order in which they were started.
        is_ending: whether who ends is not replaced any more.
        is_outdated: whether a child has read other declarations than the worker's: then none is
            replaced either, since each would.
    """

    def __init__(self, settings: PoolSettings, watch: Watch) -> None:
        self.members: list[Member] = []
        self.is_ending = False
        self.is_outdated = False
        self._has_spares = False
        self._settings = settings
        self._watch = watch
        self._succession = Succession()
        self._gauge = MemoryGauge(settings.memory_limit_bytes)
        self._events: list[Event] = []
        self._expected_s = math.inf

    @property
    def has_events(self) -> bool:
        """Whether there is something to tell."""
        return bool(self._events)

    def take_events(self) -> list[Event]:
        """Return what happened since the last call."""
        events, self._events = self._events, []
        return events

    @property
    def replaced(self) -> dict[str, int]:
        """How many children were replaced, by every `Why`."""
        return dict(self._succession.replaced)

    @property
    def broken(self) -> str | None:
        """The last failure, when none is ready and five starts in a row have failed."""
        if any(member.is_serving for member in self.members):
            return None
        starting = (member.failures for member in self.members if not member.is_ready)
        return self._succession.fault(starting)

    def start(self) -> None:
        """Start all."""
        for _ in range(self._settings.processes):
            self._spawn(failures=0)

    def keep_times(self, patience_s: float) -> float:
        """Do what is due, and return the monotonic time at which something else will be.

        Due are the end of what is too late or too large, and the start of what was put off.

        Args:
            patience_s: the monotonic time at which it is called again in any case.
        """
        now_s = monotonic_s()
        self._forgive(now_s)
        while (next_s := self._next_s()) <= now_s:
            self._do_due(now_s)
        self._expected_s = min(next_s, patience_s)
        return self._expected_s

    def doom(self, member: Member, reason: str | None, why: Why = Why.DIED) -> None:
        """Kill a child; what it has told is heard when it is buried."""
        self._watch.mute(member)
        member.doom(reason, why)
        self._fill_places()

    def retire(self, member: Member, why: Why, reason: str) -> None:
        """Let a child end after its jobs, and start its successor now."""
        member.retire(reason)
        self._watch.update(member)
        self._fill_places()
        if member.is_new:
            # A successor would be as large before its first job: in haste it would be a loop.
            fault = f"{reason} before its first request"
            self._succession.try_later(member.failures + 1, fault, monotonic_s())
            return
        self._succession.replaced[why] += 1
        self._succession.postponed += 1
        self._start_postponed()

    def _forgive(self, now_s: float) -> None:
        """Hold against no child what it told, or would have, while nobody here looked."""
        stood_s = now_s - self._expected_s - LATE_AFTER_S
        if stood_s > 0:
            for member in self.members:
                member.handover.forgive(stood_s, now_s)

    def _next_s(self) -> float:
        times = [member.next_s for member in self.members]
        return min(self._succession.next_s, self._gauge.due_s, *times)

    def _do_due(self, now_s: float) -> None:
        for member in tuple(self.members):
            if member.kill_by_s <= now_s:
                self.doom(member, member.kill_reason)
            elif member.next_s <= now_s:
                self._end_overdue(member, now_s)
        if self._gauge.due_s <= now_s:
            self._gauge.due_s = now_s + memory.LOOK_EVERY_S
            for member in tuple(self.members):
                self._weigh(member)
        for failures in self._succession.take_due(now_s):
            self._spawn(failures=failures)

    def _end_overdue(self, member: Member, now_s: float) -> None:
        # A run that has ended by now was not too long, although its end was not yet read.
        self._catch_up(member)
        if member.is_doomed:
            return
        if member.ledger.note_overdue(now_s):
            self.doom(member, "killed, because a run was past its time limit", Why.OVERDUE)
        elif member.handover.is_over(now_s):
            self.doom(member, member.handover.reason, Why.STUCK)

    def _weigh(self, member: Member) -> None:
        used_bytes, limit_bytes = self._gauge.used_bytes(member.pid), self._gauge.limit_bytes
        if used_bytes <= limit_bytes:
            return
        self._catch_up(member)
        if member.is_doomed:
            return
        reason = memory.in_words(used_bytes, limit_bytes)
        verdict = memory.judge(used_bytes, limit_bytes, can_wait=member.is_idle)
        if verdict is Verdict.KILL:
            self.doom(member, f"killed, because it was {reason}", Why.MEMORY)
        elif verdict is Verdict.RETIRE and member.is_serving:
            self.retire(member, Why.MEMORY, reason)

    def _catch_up(self, member: Member) -> None:
        self._events += member.drain()
        self._place(member)

    def _read(self, member: Member) -> None:
        self._events += member.receive()
        self._place(member)
        if member.is_retired and not member.is_doomed:
            self._watch.update(member)

    def _place(self, member: Member) -> None:
        """Let it take or leave its place by what it has told, whichever way that was heard."""
        if member.is_doomed:
            self._watch.mute(member)
        if member.is_doomed or member.is_spare:
            self._fill_places()

    def _bury(self, member: Member) -> None:
        self._watch.forget(member)
        self.members.remove(member)
        self._events += member.bury()
        self.is_outdated |= member.is_outdated
        if self.is_ending:
            return
        self._fill_places()
        if self.is_outdated:
            return
        if member.is_retired:
            self._start_postponed()
            return
        now_s = monotonic_s()
        fault = member.failed_start(now_s)
        if fault is None:
            self._succession.replaced[member.why] += 1
            self._spawn(failures=0)
        else:
            self._succession.try_later(member.failures + 1, fault, now_s)

    def _fill_places(self) -> None:
        """Give each free place to a child that is ready; start the spares when all are filled."""
        free = self._settings.processes - sum(member.is_serving for member in self.members)
        for member in self.members:
            if free and member.is_spare and member.can_serve:
                member.is_spare = False
                free -= 1
        # Not before: they would slow down the start of those that are needed.
        if not free and not self._has_spares:
            self._has_spares = True
            for _ in range(self._settings.spare_processes):
                self._spawn(failures=0)

    def _start_postponed(self) -> None:
        """Start successors, as long as no more than every second child is a retired one.

        Were there no bound, children that grow within one long run would fill the host.
        """
        retired = sum(member.is_retired for member in self.members)
        while self._succession.postponed and retired <= self._settings.processes:
            self._succession.postponed -= 1
            self._spawn(failures=0)

    def _spawn(self, *, failures: int) -> None:
        try:
            member = Member(self._settings, failures=failures)
        except OSError as error:
            fault = f"could not be started: {error.strerror}"
            self._events.append(ChildFailed(0, fault))
            self._succession.try_later(failures + 1, fault, monotonic_s())
            return
        self.members.append(member)
        self._watch.add(member, on_read=self._read, on_exit=self._bury)
