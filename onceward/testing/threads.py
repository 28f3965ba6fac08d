"""The pool of a bench: each run is a thread of this process, and may die at a point."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from queue import Empty, SimpleQueue
from typing import Any

from consumer.handlers.declaration import EffectKind, Handler
from consumer.handlers.registry import HandlerRegistry
from consumer.pool import ChildDied, EffectAsked, Event, Finished, Job, PoolSettings
from consumer.pool.effects import Answered
from consumer.pool.runs import Runs
from onceward.testing.deaths import Point, in_run, reach

TIME_LIMIT = "time limit"


class _Dies(BaseException):
    """Ends a transactional run, whose connection has to be given back."""


class ThreadPool:
    """Runs jobs as `consumer.pool.Pool` does, without processes.

    Args:
        handler: the handler of all jobs.
        group: the consumer group.
        journal_url: where transactional handlers write.

    Attributes:
        dies_at: where the next run dies; None once it did.
        hangs: whether it dies there of its time limit.
        runs: how many times the handler was called.
        entered: how many times a run was let into its marked effect.
    """

    free_slots = 1

    def __init__(self, handler: Handler, *, group: str, journal_url: str) -> None:
        self.dies_at: Point | None = None
        self.hangs = False
        self.runs = 0
        self.entered = 0
        self._is_transactional = handler.effect is EffectKind.TRANSACTIONAL
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._asking: dict[tuple[str, int], Answered] = {}
        self._jobs: dict[int, Job] = {}
        registry = HandlerRegistry()
        registry.add(replace(handler, function=self._watched(handler)))
        effects: Any = self
        self._runs = Runs(
            registry=registry,
            settings=PoolSettings((), group, journal_url=journal_url),
            effects=effects,
        )

    def poll(self, timeout_s: float) -> list[Event]:
        """Return the next event, after at most `timeout_s`."""
        try:
            return [self._events.get(timeout=max(timeout_s, 0.0) or 0.0001)]
        except Empty:
            return []

    def wake(self) -> None:
        """Do nothing: each turn of a bench ends by itself."""

    def dispatch(self, jobs: Sequence[Job]) -> None:
        """Begin each job in a thread."""
        for job in jobs:
            number = len(self._jobs)
            self._jobs[number] = job
            threading.Thread(target=self._run, args=(number, job), daemon=True).start()

    def answer_effect(self, request_id: str, generation: int, *, granted: bool) -> None:
        """Let a run go on that waits at its effect."""
        answered = self._asking.pop((request_id, generation), None)
        if answered is not None:
            self.entered += granted
            answered(granted)

    def ask(self, number: int, answered: Answered) -> None:
        """Ask for a marked effect, in the thread of a run."""
        reach(Point.BEFORE_EFFECT)
        job = self._jobs[number]
        self._asking[job.request_id, job.generation] = answered
        self._events.put(EffectAsked(job.request_id, job.generation))

    def _run(self, number: int, job: Job) -> None:
        in_run(lambda point: self._reached(point, job))
        try:
            if self._runs.is_coroutine(job):
                outcome = asyncio.run(self._runs.run_coroutine(number, job))
            else:
                outcome = self._runs.run(number, job)
        finally:
            in_run(lambda point: None)
        if outcome.raised is not None and outcome.raised.error_class.endswith("_Dies"):
            self._bury(job)
        else:
            self._events.put(Finished(job.request_id, job.generation, outcome))

    def _reached(self, point: Point, job: Job) -> None:
        if job.asks or point is not self.dies_at:
            return
        self.dies_at = None
        if self._is_transactional:
            raise _Dies
        self._bury(job)
        threading.Event().wait()

    def _bury(self, job: Job) -> None:
        hung, self.hangs = self.hangs, False
        if hung:
            self._events.put(ChildDied(1, TIME_LIMIT, (), (), (job,)))
        else:
            self._events.put(ChildDied(1, "killed by SIGKILL", (job,), ()))

    def _watched(self, handler: Handler) -> Callable[..., Any]:
        """Return the handler's function, which tells its points."""
        function, begins = handler.function, handler.effect is not EffectKind.MARKED

        def begin() -> None:
            self.runs += 1
            if begins:
                reach(Point.BEFORE_EFFECT)

        @wraps(function)
        def plain(request: object) -> object:
            begin()
            value = function(request)
            reach(Point.AFTER_EFFECT)
            return value

        @wraps(function)
        async def coroutine(request: object) -> object:
            begin()
            value = await function(request)
            reach(Point.AFTER_EFFECT)
            return value

        return coroutine if handler.is_coroutine else plain
