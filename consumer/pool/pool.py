"""The pool: one thread drives it, no call waits but `poll`, `stop` and `kill`."""

from __future__ import annotations

import atexit
import heapq
import math
import selectors
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from consumer.pool.backoff import respawn_delay_s
from consumer.pool.events import ChildFailed, Event
from consumer.pool.job import Job, PoolSettings
from consumer.pool.member import Member
from consumer.pool.wakeup import Wakeup
from feedback.clock import monotonic_s

_BURIAL_LIMIT_S = 5.0

_OnReady = Callable[[int, list[Event]], None]


@dataclass(frozen=True, slots=True)
class Load:
    """How full the pool is, and how many children it has had to replace."""

    ready: int
    busy: int
    replaced: int


class Pool:
    """Runs jobs in a fixed number of children and tells what becomes of each.

    Every call but `wake` comes from one thread, which must live as long as the pool: the kernel
    kills the children when the thread that started them ends. No call raises for a child's fault.

    Args:
        settings: how many, how large, and what they import.
    """

    def __init__(self, *, settings: PoolSettings) -> None:
        self._settings = settings
        self._wakeup = Wakeup()
        self._woken = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wakeup.fileno(), selectors.EVENT_READ, self._on_wake)
        self._members: list[Member] = []
        # (monotonic time, failures before it) of children that are tried again later.
        self._due: list[tuple[float, int]] = []
        self._untold: list[Event] = []
        self._replaced = 0
        self._is_ending = False
        self._is_closed = False

    @property
    def free_slots(self) -> int:
        """How many jobs `dispatch` takes now: free slots and prefetch of the ready children."""
        return sum(member.free for member in self._members)

    @property
    def load(self) -> Load:
        """What to show of the pool."""
        return Load(
            ready=sum(member.is_ready and not member.is_doomed for member in self._members),
            busy=sum(member.busy for member in self._members),
            replaced=self._replaced,
        )

    def start(self) -> None:
        """Start the children and return at once; each tells when it is ready."""
        # At exit multiprocessing joins children, which would wait for this process in their turn.
        atexit.register(self.kill)
        for _ in range(self._settings.processes):
            self._spawn(self._untold, failures=0)

    def poll(self, timeout_s: float) -> list[Event]:
        """Return what happened; wait for it until `wake` or for `timeout_s` seconds.

        The events of one request come in the order Started, EffectAsked, Finished, and what a
        child told comes before its ChildDied.
        """
        deadline_s = monotonic_s() + timeout_s
        events, self._untold = self._untold, []
        while True:
            self._keep_times(events)
            wait_s = 0.0 if events else min(deadline_s, self._next_time_s()) - monotonic_s()
            self._handle_ready(wait_s, events)
            if events or self._woken or monotonic_s() >= deadline_s:
                self._woken = False
                return events

    def wake(self) -> None:
        """Make a `poll`, running or next, return; for any thread and any signal handler."""
        self._wakeup.set()

    def dispatch(self, jobs: Sequence[Job]) -> None:
        """Give each job to the child that has most room then.

        Raises:
            ValueError: there are more jobs than `free_slots`; none was given.
        """
        if len(jobs) > self.free_slots:
            raise ValueError(f"{len(jobs)} jobs for {self.free_slots} free slots")
        room = [(-member.free, place) for place, member in enumerate(self._members)]
        heapq.heapify(room)
        shares: dict[int, list[Job]] = {}
        for job in jobs:
            free, place = room[0]
            heapq.heapreplace(room, (free + 1, place))
            shares.setdefault(place, []).append(job)
        for place, share in shares.items():
            self._members[place].give(share)
            self._watch_writing(self._members[place])

    def answer_effect(self, request_id: str, generation: int, *, granted: bool) -> None:
        """Let a run go on that waits at its effect; without such a run, do nothing.

        Args:
            request_id: the request, as in EffectAsked.
            generation: its claim.
            granted: whether the journal has committed that its effect begins.
        """
        for member in self._members:
            if member.answer(request_id, generation, granted=granted):
                self._watch_writing(member)

    def stop(self, timeout_s: float) -> None:
        """End the children when nothing runs any more; kill what is left after `timeout_s`.

        After a `kill` this does nothing.
        """
        if self._is_closed:
            return
        self._is_ending = True
        for member in self._members:
            if member.is_idle:
                member.ask_to_stop()
            else:
                self._doom(member, "stopped while it was busy")
        self._bury_all(monotonic_s() + timeout_s)
        self.kill()

    def kill(self) -> list[Event]:
        """Kill all children now, and return their last events: each ChildDied has its jobs.

        Nothing can be done with the pool afterwards; another `kill` returns nothing.
        """
        if self._is_closed:
            return []
        self._is_ending = self._is_closed = True
        atexit.unregister(self.kill)
        for member in self._members:
            self._doom(member, None)
        events = self._bury_all(monotonic_s() + _BURIAL_LIMIT_S)
        self._selector.close()
        self._wakeup.close()
        return events

    def _bury_all(self, deadline_s: float) -> list[Event]:
        events: list[Event] = []
        while self._members and (wait_s := deadline_s - monotonic_s()) > 0:
            self._handle_ready(wait_s, events)
        return events

    def _handle_ready(self, wait_s: float, events: list[Event]) -> None:
        for key, mask in self._selector.select(max(wait_s, 0.0)):
            on_ready: _OnReady = key.data
            on_ready(mask, events)

    def _on_wake(self, mask: int, events: list[Event]) -> None:
        self._wakeup.clear()
        self._woken = True

    def _on_socket(self, member: Member, mask: int, events: list[Event]) -> None:
        if not member.watched:  # muted by an event of this same round
            return
        if mask & selectors.EVENT_READ:
            events += member.receive()
        if mask & selectors.EVENT_WRITE:
            member.flush()
        if member.is_doomed:
            self._mute(member)
        elif mask & selectors.EVENT_WRITE:
            self._watch_writing(member)

    def _on_exit(self, member: Member, mask: int, events: list[Event]) -> None:
        self._mute(member)
        self._selector.unregister(member.death_fd)
        self._members.remove(member)
        events += member.bury()
        if self._is_ending:
            return
        self._replaced += 1
        if member.is_ready:
            self._spawn(events, failures=0)
        else:
            self._try_later(member.failures + 1)

    def _spawn(self, events: list[Event], *, failures: int) -> None:
        try:
            member = Member(self._settings, failures=failures)
        except OSError as error:
            events.append(ChildFailed(0, f"could not be started: {error.strerror}"))
            self._try_later(failures + 1)
            return
        self._members.append(member)
        self._watch_writing(member)
        on_exit = partial(self._on_exit, member)
        self._selector.register(member.death_fd, selectors.EVENT_READ, on_exit)

    def _try_later(self, failures: int) -> None:
        self._due.append((monotonic_s() + respawn_delay_s(failures), failures))

    def _watch_writing(self, member: Member) -> None:
        """Watch its socket: for reading always, for writing while something waits."""
        mask = selectors.EVENT_READ | (selectors.EVENT_WRITE if member.has_unsent else 0)
        if mask == member.watched:
            return
        if member.watched:
            self._selector.modify(member.sock, mask, partial(self._on_socket, member))
        else:
            self._selector.register(member.sock, mask, partial(self._on_socket, member))
        member.watched = mask

    def _mute(self, member: Member) -> None:
        if member.watched:
            self._selector.unregister(member.sock)
            member.watched = 0

    def _doom(self, member: Member, reason: str | None) -> None:
        self._mute(member)
        member.doom(reason)

    def _keep_times(self, events: list[Event]) -> None:
        now_s = monotonic_s()
        if self._next_time_s() > now_s:
            return
        for member in self._members:
            if member.kill_by_s <= now_s:
                self._doom(member, member.overdue_reason)
        due = [(at_s, failures) for at_s, failures in self._due if at_s <= now_s]
        self._due = [later for later in self._due if later not in due]
        for _, failures in due:
            self._spawn(events, failures=failures)

    def _next_time_s(self) -> float:
        times = [member.kill_by_s for member in self._members]
        return min(times + [at_s for at_s, _ in self._due], default=math.inf)
