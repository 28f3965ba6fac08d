"""The pool: one thread drives it, no call waits but `poll`, `stop` and `kill`."""

from __future__ import annotations

import atexit
import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from consumer.pool.crew import Crew
from consumer.pool.events import Event
from consumer.pool.job import Job, PoolSettings
from consumer.pool.succession import Why
from consumer.pool.watch import Watch
from feedback.clock import monotonic_s

_BURIAL_LIMIT_S = 5.0


@dataclass(frozen=True, slots=True)
class Load:
    """How full the pool is, and how many children it has had to replace, by every `Why`.

    Attributes:
        late: of the ready children, those that have not started what they were given a while ago.
        late_s: for how long the first of them has not.
    """

    ready: int
    busy: int
    replaced: Mapping[str, int]
    late: int = 0
    late_s: float = 0.0


class Pool:
    """Runs jobs in a fixed number of children and tells what becomes of each.

    Every call but `wake` comes from one thread, which must live as long as the pool: the kernel
    kills the children when the thread that started them ends. No call raises for a child's fault.

    Args:
        settings: how many, how large, and what they import.
    """

    def __init__(self, *, settings: PoolSettings) -> None:
        self._watch = Watch()
        self._crew = Crew(settings, self._watch)
        self._is_closed = False

    @property
    def free_slots(self) -> int:
        """How many jobs `dispatch` takes now: free slots and prefetch of the ready children."""
        return sum(member.free for member in self._crew.members)

    @property
    def load(self) -> Load:
        """What to show of the pool."""
        members = self._crew.members
        now_s = monotonic_s()
        late = [
            now_s - one.handover.since_s
            for one in members
            if one.is_serving and one.handover.is_late
        ]
        return Load(
            ready=sum(member.is_serving for member in members),
            busy=sum(member.ledger.running for member in members),
            replaced=self._crew.replaced,
            late=len(late),
            late_s=max((0.0, *late)),
        )

    @property
    def broken(self) -> str | None:
        """Why there is no child: five starts in a row have failed; None while there is hope."""
        return self._crew.broken

    @property
    def is_outdated(self) -> bool:
        """Whether a child has read other declarations than the worker's; it is not used."""
        return self._crew.is_outdated

    def start(self) -> None:
        """Start the children and return at once; each tells when it is ready."""
        # At exit multiprocessing joins children, which would wait for this process in their turn.
        atexit.register(self.kill)
        self._crew.start()

    def poll(self, timeout_s: float) -> list[Event]:
        """Return what happened; wait for it until `wake` or for `timeout_s` seconds.

        The events of one request come in the order Started, EffectAsked, Finished, and what a
        child told comes before its ChildDied. Time limits are kept in here: who seldom polls
        ends a run late.
        """
        crew, watch = self._crew, self._watch
        deadline_s = monotonic_s() + timeout_s
        while True:
            next_s = crew.keep_times(deadline_s)
            watch.wait(0.0 if crew.has_events else next_s - monotonic_s())
            if crew.has_events or watch.woken or monotonic_s() >= deadline_s:
                watch.woken = False
                return crew.take_events()

    def wake(self) -> None:
        """Make a `poll`, running or next, return; for any thread and any signal handler."""
        self._watch.wake()

    def dispatch(self, jobs: Sequence[Job]) -> None:
        """Give each job to the child that has most room then.

        Raises:
            ValueError: there are more jobs than `free_slots`; none was given.
        """
        if len(jobs) > self.free_slots:
            raise ValueError(f"{len(jobs)} jobs for {self.free_slots} free slots")
        members = tuple(self._crew.members)
        room = [(-member.free, place) for place, member in enumerate(members)]
        heapq.heapify(room)
        shares: dict[int, list[Job]] = {}
        for job in jobs:
            free, place = room[0]
            heapq.heapreplace(room, (free + 1, place))
            shares.setdefault(place, []).append(job)
        for place, share in shares.items():
            member = members[place]
            member.give(share)
            self._watch.update(member)
            if member.is_spent:
                self._crew.retire(member, Why.MAX_REQUESTS, "it has had its requests")

    def answer_effect(self, request_id: str, generation: int, *, granted: bool) -> None:
        """Let a run go on that waits at its effect; without such a run, do nothing.

        Args:
            request_id: the request, as in EffectAsked.
            generation: its claim.
            granted: whether the journal has committed that its effect begins.
        """
        for member in self._crew.members:
            if member.answer(request_id, generation, granted=granted):
                self._watch.update(member)

    def stop(self, timeout_s: float) -> None:
        """End the children when nothing runs any more; kill what is left after `timeout_s`.

        After a `kill` this does nothing.
        """
        if self._is_closed:
            return
        self._crew.is_ending = True
        for member in self._crew.members:
            if member.is_idle:
                member.ask_to_stop()
            else:
                self._crew.doom(member, "stopped while it was busy")
        self._bury_all(monotonic_s() + timeout_s)
        self.kill()

    def kill(self) -> list[Event]:
        """Kill all children now, and return their last events: each ChildDied has its jobs.

        Nothing can be done with the pool afterwards; another `kill` returns nothing.
        """
        if self._is_closed:
            return []
        self._crew.is_ending = self._is_closed = True
        atexit.unregister(self.kill)
        for member in self._crew.members:
            self._crew.doom(member, None)
        self._bury_all(monotonic_s() + _BURIAL_LIMIT_S)
        self._watch.close()
        return self._crew.take_events()

    def _bury_all(self, deadline_s: float) -> None:
        while self._crew.members and (wait_s := deadline_s - monotonic_s()) > 0:
            self._watch.wait(wait_s)
