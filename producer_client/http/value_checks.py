"""Checks values in threads: a user's validator may take long, and the loop has others to serve."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress

AT_ONCE = 4


class ValueChecks:
    """The checks of one loop. One that never ends holds a thread, and not the end of the process.

    Args:
        timeout_s: no submission waits longer, for a thread and its check.
    """

    def __init__(self, *, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._turns = asyncio.Semaphore(AT_ONCE)

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
                loop.call_soon_threadsafe(self._turns.release)

        threading.Thread(target=run, name="onceward-check", daemon=True).start()
        return found
