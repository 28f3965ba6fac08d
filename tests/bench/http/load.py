"""Asks a door: as fast as its answers come, or at fixed times."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from tests.bench.http.connections import Address, Connection, Reply

WARM_UP_S = 1.0


class Asking(Protocol):
    """Makes the questions of each lane, which is one connection, and judges the answers."""

    def message(self, lane: int) -> bytes:
        """Return the next question of a lane."""

    def judge(self, lane: int, reply: Reply) -> None:
        """Count an answer, as right or wrong."""


@dataclass(slots=True)
class Timed:
    """The answers of a case.

    Attributes:
        count: of all of them.
        took_ms: of each that is timed.
        late_ms: how long after its planned time a question was begun; by this process's fault, or
            because no connection was free.
    """

    seconds: float = 0.0
    count: int = 0
    took_ms: list[float] = field(default_factory=list)
    late_ms: list[float] = field(default_factory=list)


@asynccontextmanager
async def opened(address: Address, count: int) -> AsyncIterator[Sequence[Connection]]:
    """Yield so many connections to a door."""
    connections = [await Connection.open(address) for _ in range(count)]
    try:
        yield connections
    finally:
        for one in connections:
            one.close()


async def closed_loop(
    connections: Sequence[Connection], asking: Asking, goes_on: Callable[[], bool]
) -> Timed:
    """Ask on each connection, one question after the other, while `goes_on`."""
    timed = Timed()

    async def lane(number: int, connection: Connection) -> None:
        while goes_on():
            message = asking.message(number)
            began_s = time.perf_counter()
            reply = await connection.ask(message)
            timed.took_ms.append((time.perf_counter() - began_s) * 1000)
            timed.count += 1
            asking.judge(number, reply)

    began_s = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for number, connection in enumerate(connections):
            tasks.create_task(lane(number, connection))
    timed.seconds = time.perf_counter() - began_s
    return timed


def for_seconds(seconds: float) -> Callable[[], bool]:
    """Return whether so much time has not passed yet."""
    until_s = time.perf_counter() + seconds
    return lambda: time.perf_counter() < until_s


async def open_loop(
    connections: Sequence[Connection], asking: Asking, *, rate_per_s: float, seconds: float
) -> Timed:
    """Ask so often, whatever became of the questions before; each is timed from when it was due.

    Those due in the first second are asked and judged, and not timed.
    """
    timed = Timed()
    free: asyncio.Queue[int] = asyncio.Queue()
    for number in range(len(connections)):
        free.put_nowait(number)
    began_s = time.perf_counter()

    async def one(due_s: float) -> None:
        lane = await free.get()
        asked_s = time.perf_counter()
        reply = await connections[lane].ask(asking.message(lane))
        if due_s - began_s >= WARM_UP_S:
            timed.took_ms.append((time.perf_counter() - due_s) * 1000)
            timed.late_ms.append((asked_s - due_s) * 1000)
        timed.count += 1
        asking.judge(lane, reply)
        free.put_nowait(lane)

    async with asyncio.TaskGroup() as tasks:
        for number in range(int(rate_per_s * seconds)):
            due_s = began_s + number / rate_per_s
            await asyncio.sleep(due_s - time.perf_counter())
            tasks.create_task(one(due_s))
    timed.seconds = time.perf_counter() - began_s
    return timed
