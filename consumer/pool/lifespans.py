"""Enters the lifespans of a child before its first run, and leaves them after its last one.

Each coroutine has a task of its own on the event loop, which enters and leaves it: cancel scopes
and task groups demand the same task for both.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from consumer.handlers.lifespan import Lifespan, LifespanError
from consumer.pool.coroutines import EventLoopThread
from consumer.pool.fatal import BROKEN_EXIT_CODE
from consumer.pool.outcome import describe
from feedback.logs import EventLog

if TYPE_CHECKING:
    import asyncio

# For all of them together. The parent kills a child that takes longer than 5 s to end.
LEAVE_LIMIT_S = 3.0

_log = EventLog("onceward.child")


class ChildLifespans:
    """The lifespans of this process, entered and left by its main thread.

    Args:
        declared: by name, in the order in which they begin; read when they do.
        loop: where coroutines are entered and left.
    """

    def __init__(self, declared: Mapping[str, Lifespan[Any]], loop: EventLoopThread) -> None:
        self._declared = declared
        self._loop = loop
        self._entered: list[tuple[Lifespan[Any], AbstractContextManager[None]]] = []

    def enter(self) -> None:
        """Enter all, up to the first error; `leave` then leaves those before it.

        If the process dies in here, its parent counts a failed start, and no run has begun.

        Raises:
            LifespanError: the first one that failed.
        """
        for one in self._declared.values():
            context = _held(one, self._loop)
            try:
                context.__enter__()
            except BaseException as error:  # the user's code may raise anything
                _log.raised("lifespan.start_failed", error, lifespan=one.name)
                raise LifespanError(one.name, describe(error)) from error
            self._entered.append((one, context))

    def leave(self) -> None:
        """Leave all that were entered, in reverse; end this process when they take too long.

        An error in one is logged and keeps no other from being left. If the process dies in here,
        nothing of Onceward is lost: no run is under way.
        """
        if not self._entered:
            return
        watchdog = threading.Timer(LEAVE_LIMIT_S, self._give_up)
        watchdog.daemon = True
        watchdog.start()
        while self._entered:
            one, context = self._entered[-1]
            try:
                context.__exit__(None, None, None)
            except BaseException as error:  # the user's code may raise anything
                _log.raised("lifespan.stop_failed", error, lifespan=one.name)
            self._entered.pop()
        watchdog.cancel()

    def _give_up(self) -> None:
        hanging = [one.name for one, _ in self._entered[-1:]]
        _log.error("lifespan.stop_overdue", lifespan=", ".join(hanging), limit_s=LEAVE_LIMIT_S)
        logging.shutdown()
        os._exit(BROKEN_EXIT_CODE)


@contextmanager
def _held(one: Lifespan[Any], loop: EventLoopThread) -> Iterator[None]:
    context = _on_loop(one, loop) if one.is_coroutine else one.open()
    with context as value, one.using(value):
        yield


@contextmanager
def _on_loop(one: Lifespan[Any], loop: EventLoopThread) -> Iterator[Any]:
    task = _LifespanTask(one)
    loop.call(loop.keep, task.run())
    value = task.entered.result()
    yield value
    loop.call(_call, task.leave)
    task.left.result()


class _LifespanTask:
    """Enters one lifespan, waits until it is asked to leave, and leaves it: in one asyncio task."""

    def __init__(self, one: Lifespan[Any]) -> None:
        self._one = one
        self._leaving: asyncio.Event
        self._is_asked = False
        self.entered: Future[Any] = Future()
        self.left: Future[None] = Future()

    def leave(self) -> None:
        """Ask it to leave; on the loop only."""
        self._is_asked = True
        self._leaving.set()

    async def run(self) -> None:
        """Live from enter to leave; errors are those of the futures."""
        import asyncio  # the loop that runs this has it already

        self._leaving = asyncio.Event()
        try:
            async with self._one.open_async() as value:
                self.entered.set_result(value)
                await self._leaving.wait()
        except BaseException as error:  # the user's code may raise anything
            if self.entered.done() and not self._is_asked:
                # A task group in it was ended by one of its tasks. Runs go on: to end them with
                # this child would leave them in doubt.
                _log.raised("lifespan.ended_early", error, lifespan=self._one.name)
            (self.left if self.entered.done() else self.entered).set_exception(error)
            return
        self.left.set_result(None)


def _call(function: Callable[[], None]) -> None:
    function()
