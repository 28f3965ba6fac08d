"""Checks values in threads: a user's validator may take long, and the loop has others to serve."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress

from feedback.clock import monotonic_s

AT_ONCE = 4


class ValueChecks:
    """The checks of one loop. One that never ends holds a thread, and not the end of the process.

    Args:
        timeout_s: no submission waits longer, for a thread and its check.
    """

    def __init__(self, *, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._begun_s: dict[Future[str | None], float] = {}

    @property
    def are_stuck(self) -> bool:
        """Whether each thread has been at its check for longer than any submission waits."""
        late_s = monotonic_s() - self._timeout_s
        return sum(begun_s < late_s for begun_s in self._begun_s.values()) >= AT_ONCE

    async def fault(self, check: Callable[[], str | None]) -> str | None:
        """Return the fault that a check finds.

        Raises:
            TimeoutError: it is not known in time.
        """
        async with asyncio.timeout(self._timeout_s):
            await self._turns.acquire()
            return await asyncio.wrap_future(self._begun(check))

    def _begun(self, check: Callable[[], str | None]) -> Future[str | None]:
        found: Future[str | None] = Future()
        # A caller that gives up leaves the thread its turn.
        found.set_running_or_notify_cancel()
        loop = asyncio.get_running_loop()

        def run() -> None:
            try:
                found.set_result(check())
            except BaseException as error:  # its caller raises it
                found.set_exception(error)
            # The loop is closed: nobody waits any more.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._end, found)

        self._begun_s[found] = monotonic_s()
        try:
            threading.Thread(target=run, name="onceward-check", daemon=True).start()
        except RuntimeError as error:
            self._end(found)
            raise TimeoutError("there is no thread for it now") from error
        return found

    def _end(self, found: Future[str | None]) -> None:
        del self._begun_s[found]
        self._turns.release()
