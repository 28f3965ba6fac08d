"""Ending tasks of asyncio for certain."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

AGAIN_S = 0.1


async def end_tasks(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel tasks until each has ended; their results and errors are ignored.

    One cancellation is not enough. redis-py sends by `wait_for`, which in Python 3.11 swallows a
    cancellation when its own task ends at the same moment.
    """
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=AGAIN_S)
