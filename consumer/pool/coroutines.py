"""One event loop on one thread, made when the first coroutine or lifespan comes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from consumer.pool.fatal import ends_child
from feedback.logs import EventLog

if TYPE_CHECKING:
    import asyncio

_Argument = TypeVar("_Argument")
_log = EventLog("onceward.child")


class EventLoopThread:
    """Runs coroutines of all slots beside each other, even if one of them stops the loop."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def call(self, function: Callable[[_Argument], None], argument: _Argument) -> None:
        """Call the function on the loop; called by one thread at a time."""
        if self._loop is None:
            import asyncio  # 8 MiB that children without coroutines do not need

            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._run, args=(self._loop,), name="loop", daemon=True).start()
        self._loop.call_soon_threadsafe(function, argument)

    def keep(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run the coroutine; on the loop only. The loop itself keeps weak references."""
        assert self._loop is not None
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._drop)

    @ends_child
    def _drop(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        task.result()

    @ends_child
    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        import asyncio

        asyncio.set_event_loop(loop)
        while True:
            try:
                loop.run_forever()
            # A task that the handler made raised sys.exit(), which asyncio lets through.
            except (SystemExit, KeyboardInterrupt) as error:
                _log.error("child.task_exit", error=type(error).__name__)
