"""The pool: one thread drives it, no call waits but `poll`, `stop` and `kill`."""

from __future__ import annotations

import atexit
import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from consumer.pool.events import Event
from consumer.pool.job import Job, PoolSettings
from consumer.pool.respawn_policy import RespawnReason
from consumer.pool.supervisor import Supervisor
from consumer.pool.watch import Watch
from feedback.clock import monotonic_s

_BURIAL_LIMIT_S = 5.0


@dataclass(frozen=True, slots=True)
class PoolLoad:
    """How full the pool is, and how many children it has had to replace, by every `RespawnReason`.

    Attributes:
        late: ready children that have not started the jobs they were given a while ago.
        late_s: for how long the first of them has not.
    """

    ready: int
    busy: int
    replaced: Mapping[str, int]
    late: int = 0
    late_s: float = 0.0


class Pool:
    """Runs jobs in a fixed number of children and reports the end of each.

    Every call but `wake` comes from one thread, which must live as long as the pool: the kernel
    kills the children when the thread that started them ends. No call raises for a child's fault.

    Args:
        settings: how many children, how large, and the modules that they import.
    """

    def __init__(self, *, settings: PoolSettings) -> None:
        self._watch = Watch()
        self._supervisor = Supervisor(settings, self._watch)
        self._is_closed = False

    @property
    def free_slots(self) -> int:
        """How many jobs `dispatch` takes now: free slots and prefetch of the ready children."""
        return sum(child.free for child in self._supervisor.children)

    @property
    def load(self) -> PoolLoad:
        """The figures of the pool that a page shows."""
        children = self._supervisor.children
        now_s = monotonic_s()
        late = [
            now_s - one.handover.since_s
            for one in children
            if one.is_serving and one.handover.is_late
        ]
        return PoolLoad(
            ready=sum(child.is_serving for child in children),
            busy=sum(child.jobs.running for child in children),
            replaced=self._supervisor.replaced,
            late=len(late),
            late_s=max((0.0, *late)),
        )

    @property
    def broken(self) -> str | None:
        """Why there is no child: five starts in a row have failed; None while there is hope."""
        return self._supervisor.broken

    @property
    def is_outdated(self) -> bool:
        """Whether a child has read other declarations than the worker's; it is not used."""
        return self._supervisor.is_outdated

    @property
    def is_out_of_children(self) -> bool:
        """Whether no child is left, and none is started any more: no slot becomes free."""
        return self.is_outdated and not self._supervisor.children

    def start(self) -> None:
        """Start the children and return at once; each tells when it is ready."""
        # At exit multiprocessing joins children, which would wait for this process in their turn.
        atexit.register(self.kill)
        self._supervisor.start()

    def poll(self, timeout_s: float) -> list[Event]:
        """Return the events; wait for one until `wake` or for `timeout_s` seconds.

        A start alone does not end the wait: it comes with the next event.

        The events of one request come in the order Started, EffectAsked, Finished, and a child's
        reports come before its ChildDied. Time limits are kept in here: a caller that seldom polls
        ends a run late.
        """
        supervisor, watch = self._supervisor, self._watch
        deadline_s = monotonic_s() + timeout_s
        while True:
            next_s = supervisor.keep_times(deadline_s)
            watch.wait(0.0 if supervisor.has_news else next_s - monotonic_s())
            if supervisor.has_news or watch.woken or monotonic_s() >= deadline_s:
                watch.woken = False
                return supervisor.take_events()

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
        children = tuple(self._supervisor.children)
        room = [(-child.free, place) for place, child in enumerate(children)]
        heapq.heapify(room)
        shares: dict[int, list[Job]] = {}
        for job in jobs:
            free, place = room[0]
            heapq.heapreplace(room, (free + 1, place))
            shares.setdefault(place, []).append(job)
        for place, share in shares.items():
            child = children[place]
            child.give(share)
            self._watch.update(child)
            if child.is_spent:
                self._supervisor.retire(
                    child, RespawnReason.MAX_REQUESTS, "it has had its requests"
                )

    def set_log_level(self, level: str) -> None:
        """Change the level of the children's logs, also of those that are started later."""
        self._supervisor.set_log_level(level)

    def answer_effect(self, request_id: str, generation: int, *, granted: bool) -> None:
        """Let a run go on that waits at its effect; without such a run, do nothing.

        Args:
            request_id: the request, as in EffectAsked.
            generation: its claim.
            granted: whether the journal has committed that its effect begins.
        """
        for child in self._supervisor.children:
            if child.answer(request_id, generation, granted=granted):
                self._watch.update(child)

    def stop(self, timeout_s: float) -> None:
        """End the children when nothing runs any more; kill those that are left after `timeout_s`.

        After a `kill` this does nothing.
        """
        if self._is_closed:
            return
        self._supervisor.is_ending = True
        for child in self._supervisor.children:
            if child.is_idle:
                child.ask_to_stop()
            else:
                self._supervisor.doom(child, "stopped while it was busy")
        self._bury_all(monotonic_s() + timeout_s)
        self.kill()

    def kill(self) -> list[Event]:
        """Kill all children now, and return their last events: each ChildDied has its jobs.

        Nothing can be done with the pool afterwards; another `kill` returns nothing.
        """
        if self._is_closed:
            return []
        self._supervisor.is_ending = self._is_closed = True
        atexit.unregister(self.kill)
        for child in self._supervisor.children:
            self._supervisor.doom(child, None)
        self._bury_all(monotonic_s() + _BURIAL_LIMIT_S)
        self._watch.close()
        return self._supervisor.take_events()

    def _bury_all(self, deadline_s: float) -> None:
        while self._supervisor.children and (wait_s := deadline_s - monotonic_s()) > 0:
            self._watch.wait(wait_s)
