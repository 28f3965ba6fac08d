"""`python -m tests.bench.sends`: sends a second of one process, by either client.

    python -m tests.stack -- python -m tests.bench.sends

Each row sends the same number of requests of 1 KiB: one by one, by threads or tasks at the same
time, and by `send_many`. Rows go to `build/bench/sends.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import threading
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from kafka.admin import KafkaAdminClient, NewTopic

from feedback.settings.settings import Settings, load
from producer_client import AsyncClient, Client, Submission
from tests.bench.launching import ROOT
from tests.bench.measure.cost import Reading, cost
from tests.bench.measure.processes import own_cpu_s
from tests.bench.rows import write_json
from tests.stack import Servers, Stack

OUTPUT = ROOT / "build" / "bench" / "sends.json"
VALUE = b"v" * 1024
THREADS = 16
TASKS = 1000


@dataclass(frozen=True, slots=True)
class Row:
    """One way of sending.

    Attributes:
        cpu_ms: processor time of this process for each send.
        threads: the most that there were.
        other_cpu_percent: of the machine, servers included.
    """

    way: str
    sends: int
    sends_per_s: float
    cpu_ms: float
    threads: int
    other_cpu_percent: float


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.sends", description=__doc__)
    parser.add_argument("--sends", type=int, default=5000, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="default: build/bench/…")
    asked = parser.parse_args(arguments)
    ways: dict[str, Callable[[Settings, int], int]] = {
        "Client, one by one": lambda settings, count: _threads(settings, count, threads=1),
        f"Client, {THREADS} threads": lambda settings, count: _threads(
            settings, count, threads=THREADS
        ),
        "Client.send_many": _many,
        "AsyncClient, one by one": lambda settings, count: _tasks(settings, count, tasks=1),
        f"AsyncClient, {THREADS} tasks": lambda settings, count: _tasks(
            settings, count, tasks=THREADS
        ),
        f"AsyncClient, {TASKS} tasks": lambda settings, count: _tasks(settings, count, tasks=TASKS),
        "AsyncClient.send_many": _async_many,
    }
    rows: list[Row] = []
    with Stack.start() as servers:
        for _ in range(asked.rounds):
            for name, way in ways.items():
                rows.append(_measured(servers, name, way, asked.sends))
                write_json(asked.output, [asdict(row) for row in rows])
                print(rows[-1], flush=True)
    return 0


def _measured(servers: Servers, name: str, way: Callable[[Settings, int], int], count: int) -> Row:
    topic = f"sends-{uuid.uuid4().hex}"
    with KafkaAdminClient(bootstrap_servers=servers.kafka) as admin:
        admin.create_topics([NewTopic(topic, 4, 1)])
        admin.wait_for_topics([topic])
    settings = load(
        None,
        kafka={"bootstrap_servers": servers.kafka, "group": topic},
        redis={"url": servers.redis},
        client={"topic": topic, "send_timeout_s": 60},
    )
    meters = {"own": lambda: own_cpu_s(os.getpid())}
    before = Reading.take(meters, {})
    threads = way(settings, count)
    after = Reading.take(meters, {})
    spent = cost(before, after)
    seconds = after.at_s - before.at_s
    cpu_ms = spent.cpu_s["own"] * 1000 / count
    return Row(name, count, count / seconds, cpu_ms, threads, spent.other_cpu_percent)


def _threads(settings: Settings, count: int, *, threads: int) -> int:
    with Client(settings) as client, ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(lambda _: client.send(VALUE), range(count)):
            pass
        return threading.active_count()


def _many(settings: Settings, count: int) -> int:
    with Client(settings) as client:
        assert all(one.sent for one in client.send_many(Submission(VALUE) for _ in range(count)))
        return threading.active_count()


def _tasks(settings: Settings, count: int, *, tasks: int) -> int:
    async def main() -> int:
        async with AsyncClient(settings) as client:
            left = iter(range(count))

            async def send() -> None:
                for _ in left:
                    await client.send(VALUE)

            await asyncio.gather(*(send() for _ in range(tasks)))
            return threading.active_count()

    return asyncio.run(main())


def _async_many(settings: Settings, count: int) -> int:
    async def main() -> int:
        async with AsyncClient(settings) as client:
            async for one in client.send_many(Submission(VALUE) for _ in range(count)):
                assert one.sent
            return threading.active_count()

    return asyncio.run(main())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
