"""`python -m tests.bench.sends`: sends a second of one process, by either client.

    python -m tests.stack -- python -m tests.bench.sends

Each row sends the same number of requests of 1 KiB: one by one, by threads or tasks at the same
time, and by `send_many`. Rows go to `build/bench/sends.json`.

    python -m tests.stack -- python -m tests.bench.sends --libraries --by kafka-python,confluent

compares the libraries for Kafka, in turn within each round: whole sends of a client, and those of
its sender for Kafka alone.
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
from functools import partial
from pathlib import Path
from typing import NamedTuple

from kafka.admin import KafkaAdminClient, NewTopic

from feedback.clock import monotonic_s
from feedback.kafka.senders import open_sender
from feedback.settings.settings import Settings, load
from producer_client import AsyncClient, Client, Submission
from tests.bench.launching import ROOT
from tests.bench.measure.cost import Reading, cost
from tests.bench.measure.figures import percentile
from tests.bench.measure.processes import own_cpu_s
from tests.bench.rows import write_json
from tests.stack import Servers, Stack

OUTPUT = ROOT / "build" / "bench" / "sends.json"
VALUE = b"v" * 1024
THREADS = 16
MANY_THREADS = 50
TASKS = 1000
# The first sends connect.
WARM_UP = 50
TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Row:
    """One way of sending.

    Attributes:
        by: the library for Kafka.
        cpu_ms: processor time of this process for each send.
        p50_ms: how long one send takes, as `p99_ms`; None where a way does not say.
        threads: the most that there were.
        other_cpu_percent: of the machine, servers included.
    """

    way: str
    by: str
    sends: int
    sends_per_s: float
    cpu_ms: float
    p50_ms: float | None
    p99_ms: float | None
    threads: int
    other_cpu_percent: float


class Sent(NamedTuple):
    """How a way has gone: the most threads, and the seconds of each send where it says them."""

    threads: int
    seconds: Sequence[float] = ()


Way = Callable[[Settings, int], Sent]


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.sends", description=__doc__)
    parser.add_argument("--sends", type=int, default=5000, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--by", default="kafka-python", help="libraries; default: %(default)s")
    parser.add_argument("--libraries", action="store_true", help="compare those of --by")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="default: build/bench/…")
    asked = parser.parse_args(arguments)
    ways = LIBRARY_WAYS if asked.libraries else WAYS
    rows: list[Row] = []
    with Stack.start() as servers:
        for _ in range(asked.rounds):
            for name, way in ways.items():
                for by in asked.by.split(","):
                    rows.append(_measured(servers, name, by, way, asked.sends))
                    write_json(asked.output, [asdict(row) for row in rows])
                    print(rows[-1], flush=True)
    return 0


def _measured(servers: Servers, name: str, by: str, way: Way, count: int) -> Row:
    topic = f"sends-{uuid.uuid4().hex}"
    with KafkaAdminClient(bootstrap_servers=servers.kafka) as admin:
        admin.create_topics([NewTopic(topic, 4, 1)])
        admin.wait_for_topics([topic])
    settings = load(
        None,
        kafka={"bootstrap_servers": servers.kafka, "group": topic, "client": by},
        redis={"url": servers.redis},
        client={"topic": topic, "send_timeout_s": TIMEOUT_S},
    )
    meters = {"own": lambda: own_cpu_s(os.getpid())}
    before = Reading.take(meters, {})
    sent = way(settings, count)
    after = Reading.take(meters, {})
    spent = cost(before, after)
    seconds = after.at_s - before.at_s
    return Row(
        way=name,
        by=by,
        sends=count,
        sends_per_s=count / seconds,
        cpu_ms=spent.cpu_s["own"] * 1000 / count,
        p50_ms=_percentile_ms(sent.seconds, 50),
        p99_ms=_percentile_ms(sent.seconds, 99),
        threads=sent.threads,
        other_cpu_percent=spent.other_cpu_percent,
    )


def _percentile_ms(seconds: Sequence[float], percent: float) -> float | None:
    return percentile(seconds, percent) * 1000 if seconds else None


def _threads(settings: Settings, count: int, *, threads: int) -> Sent:
    with Client(settings) as client:
        return _by_threads(lambda: client.send(VALUE), count, threads)


def _sender(settings: Settings, count: int, *, threads: int) -> Sent:
    """Send by the sender for Kafka alone: no Redis, no envelope."""
    topic = settings.client.topic
    assert topic is not None
    sender = open_sender(settings.kafka, send_timeout_s=TIMEOUT_S, max_request_bytes=1_000_000)

    def send() -> object:
        key = uuid.uuid4().hex.encode()
        return sender.send(topic, key=key, value=VALUE, headers=[]).result()

    try:
        return _by_threads(send, count, threads)
    finally:
        sender.close()


def _by_threads(send: Callable[[], object], count: int, threads: int) -> Sent:
    def timed(_: int) -> float:
        began_s = monotonic_s()
        send()
        return monotonic_s() - began_s

    with ThreadPoolExecutor(threads) as pool:
        seconds = [*pool.map(timed, range(count))]
        return Sent(threading.active_count(), seconds[min(WARM_UP, count // 2) :])


def _many(settings: Settings, count: int) -> Sent:
    with Client(settings) as client:
        assert all(one.sent for one in client.send_many(Submission(VALUE) for _ in range(count)))
        return Sent(threading.active_count())


def _tasks(settings: Settings, count: int, *, tasks: int) -> Sent:
    seconds: list[float] = []

    async def main() -> int:
        async with AsyncClient(settings) as client:
            left = iter(range(count))

            async def send() -> None:
                for _ in left:
                    began_s = monotonic_s()
                    await client.send(VALUE)
                    seconds.append(monotonic_s() - began_s)

            await asyncio.gather(*(send() for _ in range(tasks)))
            return threading.active_count()

    return Sent(asyncio.run(main()), seconds)


def _async_many(settings: Settings, count: int) -> Sent:
    async def main() -> int:
        async with AsyncClient(settings) as client:
            async for one in client.send_many(Submission(VALUE) for _ in range(count)):
                assert one.sent
            return threading.active_count()

    return Sent(asyncio.run(main()))


WAYS: dict[str, Way] = {
    "Client, one by one": partial(_threads, threads=1),
    f"Client, {THREADS} threads": partial(_threads, threads=THREADS),
    "Client.send_many": _many,
    "AsyncClient, one by one": partial(_tasks, tasks=1),
    f"AsyncClient, {THREADS} tasks": partial(_tasks, tasks=THREADS),
    f"AsyncClient, {TASKS} tasks": partial(_tasks, tasks=TASKS),
    "AsyncClient.send_many": _async_many,
}
LIBRARY_WAYS: dict[str, Way] = {
    "sender, one by one": partial(_sender, threads=1),
    f"sender, {MANY_THREADS} threads": partial(_sender, threads=MANY_THREADS),
    "Client, one by one": partial(_threads, threads=1),
    f"Client, {MANY_THREADS} threads": partial(_threads, threads=MANY_THREADS),
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
