"""Ending tasks of asyncio for certain."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

AGAIN_S = 0.1


async def end_tasks(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel tasks until each has ended, whatever it ends with.

    Once is not enough: `wait_for`, by which redis-py sends, swallows a cancellation in Python 3.11
    when what it waits for ends at the same moment.
    """
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=AGAIN_S)
