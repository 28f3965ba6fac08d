"""The pool of a bench: each run is a thread of this process, and may die at a point."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Sequence
from queue import Empty, Queue
from typing import Any

from consumer.handlers.declaration import EffectKind, Handler
from consumer.handlers.registry import HandlerRegistry
from consumer.pool import ChildDied, EffectAsked, Event, Finished, Job, Outcome, PoolSettings
from consumer.pool.effects import EffectAnswered
from consumer.pool.runs import Runs
from onceward.testing.deaths import RUN, Death, JournalOutage, Point, RunDied, reach
from onceward.testing.memory import MemoryJournal
from onceward.testing.watched import watched

END_S = 5.0


class ThreadPool:
    """Runs jobs as `consumer.pool.Pool` does, without processes.

    Args:
        handler: the handler of all jobs.
        group: the consumer group.
        worker_id: whose claims transactional handlers end.
        journal: where transactional handlers write; it goes away at outages.

    Attributes:
        ahead: the deaths of the next runs and the outages in them, in order.
        closing: the pool closes, and its dead runs end.
        runs: how many times the handler was called, by request.
        effects: how many times a run was let into its marked effect, by request.
        commits: how many transactional runs were committed, by request.
    """

    free_slots = 1

    def __init__(
        self, handler: Handler, *, group: str, worker_id: str, journal: MemoryJournal
    ) -> None:
        self.ahead: deque[Death | JournalOutage] = deque()
        self.closing = threading.Event()
        self.runs: Counter[str] = Counter()
        self.effects: Counter[str] = Counter()
        self.commits: Counter[str] = Counter()
        self.is_transactional = handler.effect is EffectKind.TRANSACTIONAL
        self._journal = journal
        self._is_outage_due = False
        # Not a SimpleQueue: before Python 3.13 its `get` waits for ever where its timeout is over
        # before it first looks.
        self._events: Queue[Event] = Queue()
        # Threads and tasks of one run may ask at the same time: they get one answer.
        self._asking: dict[tuple[str, int], list[EffectAnswered]] = {}
        self._asking_lock = threading.Lock()
        self._began_runs: list[ThreadRun] = []
        self._threads: list[threading.Thread] = []
        self._settled = 0
        registry = HandlerRegistry()
        registry.add(watched(handler, self._began))
        asked: Any = self
        self._runs = Runs(
            registry=registry,
            settings=PoolSettings((), group, journal_url=journal.url, worker_id=worker_id),
            effects=asked,
        )

    def poll(self, timeout_s: float) -> list[Event]:
        """Return the next event, after at most `timeout_s`."""
        try:
            events = [self._events.get(timeout=max(timeout_s, 0.0))]
        except Empty:
            events = []
        if self._is_outage_due:
            self._is_outage_due = False
            self._journal.go_away()
        return events

    def wake(self) -> None:
        """Do nothing: each turn of a bench ends by itself."""

    def dispatch(self, jobs: Sequence[Job]) -> None:
        """Begin each job in a thread."""
        for job in jobs:
            self._began_runs.append(ThreadRun(job, self))
            number = len(self._began_runs) - 1
            thread = threading.Thread(target=self._run, args=(number,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def answer_effect(self, request_id: str, generation: int, *, granted: bool) -> None:
        """Let a run go on that waits at its effect."""
        with self._asking_lock:
            waiting = self._asking.pop((request_id, generation), [])
        self.effects[request_id] += bool(waiting) and granted
        for answered in waiting:
            answered(granted)

    def ask(self, number: int, answered: EffectAnswered) -> None:
        """Ask for a marked effect, in the thread of a run."""
        reach(Point.BEFORE_EFFECT)
        run = self._began_runs[number]
        if run.is_taken_over:
            answered(False)  # the row has another generation by now
            return
        job = run.job
        with self._asking_lock:
            waiting = self._asking.setdefault((job.request_id, job.generation), [])
            waiting.append(answered)
        if len(waiting) == 1:
            self._events.put(EffectAsked(job.request_id, job.generation))

    def bury(self, job: Job, death: Death) -> None:
        """Report the child of a run as dead."""
        if death.is_overdue:
            self._events.put(ChildDied(1, "killed for its time limit", (), (), overdue=(job,)))
        else:
            self._events.put(ChildDied(1, "killed by SIGKILL", (job,), ()))

    def lose_journal(self) -> None:
        """Let the journal be gone when the worker next hears of a run; in the thread of a run."""
        self._is_outage_due = True

    def settle(self) -> None:
        """Wake paused runs, and wait for all that living ones have left behind, for some time."""
        first, self._settled = self._settled, len(self._threads)
        for run, thread in zip(self._began_runs[first:], self._threads[first:], strict=True):
            if run.died is None:
                run.woken.set()
                thread.join(END_S)

    def close(self) -> None:
        """End the threads of dead runs, and close the connections of transactional ones."""
        self.closing.set()
        for thread in self._threads:
            thread.join(END_S)
        self._runs.close()

    def _began(self, request_id: str) -> None:
        self.runs[request_id] += 1

    def _run(self, number: int) -> None:
        run = self._began_runs[number]
        RUN.set(run)
        if self._runs.is_coroutine(run.job):
            asyncio.run(self._run_coroutine(number, run))
        else:
            self._end(run, self._runs.run(number, run.job))

    async def _run_coroutine(self, number: int, run: ThreadRun) -> None:
        self._end(run, await self._runs.run_coroutine(number, run.job))
        # The loop of a child goes on, and so do the tasks that a handler has left in it.
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left:
            done, _ = await asyncio.wait(left, timeout=END_S)
            if run.died is not None:  # they end with it, and asyncio is to say nothing of that
                [one.exception() for one in done if not one.cancelled()]

    def _end(self, run: ThreadRun, outcome: Outcome) -> None:
        run.is_over = True
        job = run.job
        if run.died is not None:
            if self.is_transactional:
                self.bury(job, run.died)
        elif not run.is_taken_over:
            self.commits[job.request_id] += outcome.committed
            self._events.put(Finished(job.request_id, job.generation, outcome))


class ThreadRun:
    """One run: it dies at the point where the pool's next death is.

    A dead run stays where it is until the pool closes, so no `finally` of its handler runs sooner.
    A transactional one is ended at once, and reported when its connection is given back.

    Attributes:
        died: its death; None while it lives.
        is_over: its handler has returned; tasks of it may go on.
        is_taken_over: it stood still, and another run has its request.
        woken: it goes on after that.
    """

    def __init__(self, job: Job, pool: ThreadPool) -> None:
        self.job = job
        self._pool = pool
        self.died: Death | None = None
        self.is_over = False
        self.is_taken_over = False
        self.woken = threading.Event()

    def reach(self, point: Point) -> None:
        """Come to a point; where the run is to die, or is dead, this does not return."""
        self.go_on()
        ahead = self._pool.ahead
        if self.is_over or self.job.asks or not ahead or ahead[0].point is not point:
            return
        comes = ahead.popleft()
        if isinstance(comes, JournalOutage):
            self._pool.lose_journal()
            return
        if comes.wakes:
            self.is_taken_over = True
        else:
            self.died = comes
        if not self._pool.is_transactional:
            self._pool.bury(self.job, comes)
        self.go_on()

    def go_on(self) -> None:
        """Return only while the run lives."""
        if self.is_taken_over:
            self.woken.wait()
        if self.died is None:
            return
        if not self._pool.is_transactional:
            self._pool.closing.wait()
        raise RunDied
