"""The slots of a child: as many runs at a time as allowed, the other jobs wait in order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from queue import SimpleQueue
from typing import Protocol

from consumer.pool.coroutines import EventLoopThread
from consumer.pool.fatal import ends_child
from consumer.pool.job import Job
from consumer.pool.outbox import Outbox
from consumer.pool.outcome import Outcome
from consumer.pool.wire import Numbered


class Runner(Protocol):
    """Runs one job; an error of the handler is in the outcome."""

    def is_coroutine(self, job: Job) -> bool: ...
    def run(self, number: int, job: Job) -> Outcome: ...
    async def run_coroutine(self, number: int, job: Job) -> Outcome: ...


class Slots:
    """Threads for plain handlers and one event loop for coroutines, both within one limit.

    Threads are made when there is none idle; the loop when the first coroutine comes.

    Args:
        limit: how many jobs run at the same time.
        runner: the object that runs them.
        outbox: where starts and outcomes are told.
        loop: where coroutines run.
    """

    def __init__(
        self, *, limit: int, runner: Runner, outbox: Outbox, loop: EventLoopThread
    ) -> None:
        self._outbox = outbox
        self._outbox.hand_to(self._hand_over)
        self._limit = limit
        self._runner = runner
        self._lock = threading.Lock()
        self._waiting: deque[Numbered] = deque()
        self._running = 0
        self._thread_jobs: SimpleQueue[Numbered] = SimpleQueue()
        self._thread_jobs_open = 0
        self._threads = 0
        self._loop = loop

    def accept(self, jobs: Sequence[Numbered]) -> None:
        """Start as many as there is room for, keep the rest until a slot is free."""
        with self._lock:
            room = self._limit - self._running
            starting = jobs[:room]
            self._running += len(starting)
            self._waiting.extend(jobs[room:])
        if starting:
            self._outbox.start(starting)

    def _hand_over(self, jobs: Sequence[Numbered]) -> None:
        coroutines = []
        for number, job in jobs:
            if self._runner.is_coroutine(job):
                coroutines.append((number, job))
            else:
                self._give_to_thread(number, job)
        if coroutines:
            self._loop.call(self._make_tasks, coroutines)

    def _give_to_thread(self, number: int, job: Job) -> None:
        with self._lock:
            self._thread_jobs_open += 1
            is_short = self._thread_jobs_open > self._threads
            self._threads += is_short
        self._thread_jobs.put((number, job))
        if is_short:
            threading.Thread(target=self._work, name="slot", daemon=True).start()

    @ends_child
    def _work(self) -> None:
        while True:
            number, job = self._thread_jobs.get()
            outcome = self._runner.run(number, job)
            with self._lock:
                self._thread_jobs_open -= 1
            # With jobs at hand the next no-ops are through before a write would be.
            self._finish(number, outcome, is_urgent=self._thread_jobs.empty())

    @ends_child
    def _make_tasks(self, jobs: Sequence[Numbered]) -> None:
        for number, job in jobs:
            self._loop.keep(self._run_coroutine(number, job))

    async def _run_coroutine(self, number: int, job: Job) -> None:
        outcome = await self._runner.run_coroutine(number, job)
        self._finish(number, outcome, is_urgent=False)

    def _finish(self, number: int, outcome: Outcome, *, is_urgent: bool) -> None:
        with self._lock:
            following = [self._waiting.popleft()] if self._waiting else []
            self._running -= not following
        self._outbox.finish(number, outcome, following=following, is_urgent=is_urgent)
