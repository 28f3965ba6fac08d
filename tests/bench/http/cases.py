"""The cases: each is driven to its end, judged, and measured while it is driven."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from functools import partial

from feedback.redis.async_store import AsyncStatusStore, connect_async
from feedback.redis.server import connect
from feedback.status import State
from feedback.statuses import StatusWrite
from tests.bench.errors import BenchError
from tests.bench.http.connections import Stream
from tests.bench.http.door import Door
from tests.bench.http.load import Timed, closed_loop, for_seconds, open_loop, opened
from tests.bench.http.readings import Readings
from tests.bench.http.submissions import Submissions, missing
from tests.bench.measure.cost import Cost, Reading, cost
from tests.kit.load import Load
from tests.producer_client.acting import Worker

WARM_UP_S = 1.0
RATE_PER_S = 100.0
CHANGES_PER_S = 100.0
MOST_CHANGES = 1_000
EVENT_LIMIT_S = 30.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is asked."""

    connections: int
    seconds: float
    streams: int


@dataclass(frozen=True, slots=True)
class Measured:
    """One case.

    Attributes:
        wrong: answers, requests or streams that are not as they must be.
        rss_mib: of the door, at the end.
    """

    timed: Timed
    wrong: int
    rss_mib: float
    cost: Cost


Case = Callable[[Door, Sizes], Coroutine[None, None, Measured]]


async def submit(door: Door, sizes: Sizes) -> Measured:
    """Submit as fast as the answers come."""
    submissions = Submissions(door.topic)
    async with opened(door.address, sizes.connections) as connections:
        await closed_loop(connections, submissions, for_seconds(WARM_UP_S))
        before = _reading(door)
        timed = await closed_loop(connections, submissions, for_seconds(sizes.seconds))
        after = _reading(door)
    return await _submitted(door, submissions, timed, cost(before, after))


async def rate(door: Door, sizes: Sizes) -> Measured:
    """Submit so often, measured from when each submission was due."""
    submissions = Submissions(door.topic)
    async with opened(door.address, sizes.connections) as connections:
        before = _reading(door)
        timed = await open_loop(
            connections, submissions, rate_per_s=RATE_PER_S, seconds=sizes.seconds
        )
        after = _reading(door)
    return await _submitted(door, submissions, timed, cost(before, after))


async def _submitted(door: Door, submissions: Submissions, timed: Timed, spent: Cost) -> Measured:
    rss_mib = door.rss_mib
    lost = await asyncio.to_thread(missing, door.settings, door.topic, submissions.accepted)
    return Measured(timed, submissions.wrong + lost, rss_mib, spent)


async def status(door: Door, sizes: Sizes) -> Measured:
    """Read statuses with their tags as fast as the answers come; half-way each one changes."""
    request_ids = await _accepted(door, sizes.connections, sizes.connections)
    readings = Readings(request_ids)
    with _worker(door) as worker, Load(lambda _: worker.live(), rate_per_s=1):
        worker.live()
        async with opened(door.address, sizes.connections) as connections:
            await closed_loop(connections, readings, for_seconds(WARM_UP_S))
            before = _reading(door)
            changing = asyncio.create_task(
                _change(worker, request_ids, readings, sizes.seconds / 2)
            )
            timed = await closed_loop(connections, readings, for_seconds(sizes.seconds))
            after = _reading(door)
            await changing
    wrong = readings.wrong + readings.unseen
    return Measured(timed, wrong, door.rss_mib, cost(before, after))


async def _change(
    worker: Worker, request_ids: Sequence[str], readings: Readings, in_s: float
) -> None:
    await asyncio.sleep(in_s)
    for lane, request_id in enumerate(request_ids):
        await asyncio.to_thread(worker.accept, request_id)
        readings.changed(lane)


async def streams(door: Door, sizes: Sizes) -> Measured:
    """Open event streams, change some of their requests, and time each change to its event."""
    request_ids = await _accepted(door, sizes.streams, sizes.connections)
    found = [Stream(one) for one in request_ids]
    began = _reading(door)
    await _open(door, found, sizes.connections)
    before = _reading(door)
    took_s, cpu_s = before.at_s - began.at_s, cost(began, before).cpu_s["door"]
    print(f"{len(found)} streams opened in {took_s:.1f} s, {cpu_s:.1f} s of the door", flush=True)
    changed = found[:: max(1, len(found) // MOST_CHANGES)][:MOST_CHANGES]
    timed = await _tell(door, changed)
    after = _reading(door)
    rss_mib = door.rss_mib
    told = set(changed)
    wrong = sum(
        not one.is_open or one.states != [State.PENDING, *([State.RUNNING] if one in told else [])]
        for one in found
    )
    for one in found:
        one.close()
    return Measured(timed, wrong, rss_mib, cost(before, after))


async def _open(door: Door, found: Sequence[Stream], at_a_time: int) -> None:
    loop = asyncio.get_running_loop()
    left = iter(found)

    async def lane() -> None:
        for one in left:
            await loop.create_connection(partial(_same, one), *door.address)
            await one.told(1)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(at_a_time):
            tasks.create_task(lane())


def _same(one: Stream) -> Stream:
    return one


async def _tell(door: Door, changed: Sequence[Stream]) -> Timed:
    """Change so many requests a second; return the time from before each write to its event."""
    timed = Timed()
    section = door.settings.redis
    store = AsyncStatusStore(connect_async(section), door.settings.kafka.group, section)

    async def one(stream: Stream, write: StatusWrite, due_s: float) -> None:
        began_s = time.perf_counter()
        timed.late_ms.append((began_s - due_s) * 1000)
        assert await store.write([write]) == [None]
        await stream.told(2)
        timed.count += 1
        timed.took_ms.append((stream.at_s - began_s) * 1000)

    async with aclosing(store):
        known = await store.read_many([one.request_id for one in changed])
        writes = [
            StatusWrite(one.request_id, State.RUNNING, one.attempt, 1, one.payload_sha256 or "")
            for one in known
        ]
        began_s = time.perf_counter()
        tasks = []
        for number, (stream, write) in enumerate(zip(changed, writes, strict=True)):
            due_s = began_s + number / CHANGES_PER_S
            await asyncio.sleep(due_s - time.perf_counter())
            tasks.append(asyncio.create_task(one(stream, write, due_s)))
        # An event that is missing is counted by the states of its stream.
        _, waiting = await asyncio.wait(tasks, timeout=EVENT_LIMIT_S)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    timed.seconds = time.perf_counter() - began_s
    return timed


async def _accepted(door: Door, count: int, connections: int) -> list[str]:
    """Return so many requests that the door has accepted."""
    submissions = Submissions(door.topic)

    def goes_on() -> bool:
        # Those that are asked now will be accepted.
        return submissions.wrong == 0 and submissions.begun < count

    async with opened(door.address, min(count, connections)) as those:
        await closed_loop(those, submissions, goes_on)
    if len(submissions.accepted) < count:
        raise BenchError("the front door has not accepted the requests to be followed")
    return submissions.accepted


@contextmanager
def _worker(door: Door) -> Iterator[Worker]:
    with connect(door.settings.redis) as redis:
        yield Worker(redis, door.settings.kafka.group, door.settings.redis)


def _reading(door: Door) -> Reading:
    return Reading.take(door.parts, {})


CASES: dict[str, Case] = {"submit": submit, "status": status, "rate-100": rate, "streams": streams}
