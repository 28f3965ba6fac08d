"""Lifespans that write down when they are entered and left."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from consumer.handlers.lifespan import lifespan


def note(words: str) -> None:
    """Append a line to the file that the test reads."""
    with Path(os.environ["LIFESPAN_NOTES"]).open("a") as notes:
        notes.write(f"{words}\n")


@lifespan
def engine() -> Iterator[dict[str, int]]:
    thread = threading.current_thread()
    note("engine entered")
    yield {"pid": os.getpid()}
    note(f"engine left, same thread: {thread is threading.current_thread()}")


@lifespan
async def session() -> AsyncIterator[asyncio.AbstractEventLoop]:
    task = asyncio.current_task()
    note(f"session entered after the engine: {engine.value['pid'] == os.getpid()}")
    yield asyncio.get_running_loop()
    note(f"session left, same task: {task is asyncio.current_task()}")
