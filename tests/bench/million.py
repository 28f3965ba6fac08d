"""Whether memory grows with what waits: a million requests in the topic, a slow handler."""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
from kafka import KafkaProducer
from redis import Redis

from feedback.clock import monotonic_s
from onceward.servers.errors import tail
from tests.bench import plan
from tests.bench.errors import BenchError
from tests.bench.launching import running
from tests.bench.measure.processes import tree_pss_mib
from tests.bench.systems import onceward
from tests.eventually import eventually
from tests.stack import Servers

HANDLERS = "tests.bench.slow_handlers"
WATCH_S = 60.0
SAMPLE_EVERY_S = 1.0
FULL_WITHIN_S = 60.0
IN_FLIGHT = 20_000

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of a worker and its children while `waiting` requests lay in the topic.

    Attributes:
        start_mib: when all slots were taken for the first time.
        max_mib, end_mib: the most, and the last, of `watched_s` seconds.
    """

    waiting: int
    start_mib: float
    max_mib: float
    end_mib: float
    watched_s: float


def watch_memory(servers: Servers, *, requests: int, folder: Path, say: Say) -> Memory:
    """Fill a topic, start a worker with a slow handler, and watch its memory.

    Raises:
        BenchError: the worker did not fill its slots, or ended; ends with its log.
    """
    with (
        tempfile.TemporaryDirectory(prefix="million-", dir=folder) as name,
        onceward.fresh_topic(servers.kafka) as topic,
    ):
        trial = Path(name)
        say(f"{requests:,} records go into the topic")
        fill(servers.kafka, topic, requests)
        url = f"sqlite:///{trial / 'journal.db'}"
        environ = onceward.environment(servers, url, topic=topic, handlers=HANDLERS)
        onceward.migrate(environ, trial)
        log = trial / "worker.log"
        with running(onceward.WORKER, environ=environ, log=log) as worker:
            say("the worker starts")
            try:
                _await_full(worker, servers.redis, environ["ONCEWARD_KAFKA__GROUP"])
                say(f"its slots are taken; memory is watched for {WATCH_S:g} s")
                samples = _samples(worker.pid)
            except (BenchError, TimeoutError, psutil.NoSuchProcess) as error:
                raise BenchError(f"{error}\n{tail(log)}") from error
    return Memory(requests, samples[0], max(samples), samples[-1], WATCH_S)


def fill(bootstrap_servers: str, topic: str, count: int) -> None:
    """Send `count` small records, a bounded number of them at a time.

    Raises:
        KafkaError: one was not acknowledged.
    """
    with KafkaProducer(bootstrap_servers=bootstrap_servers, linger_ms=20) as producer:
        for first in range(0, count, IN_FLIGHT):
            chunk = range(first, min(first + IN_FLIGHT, count))
            sent = [producer.send(topic, value=b'{"n":%d}' % number) for number in chunk]
            for future in sent:
                future.get(timeout=30)


def text(memory: Memory) -> str:
    """Return the result in one sentence."""
    return (
        f"{memory.waiting:,} requests waiting: {memory.start_mib:.1f} MiB at the start, "
        f"{memory.max_mib:.1f} at most, {memory.end_mib:.1f} after {memory.watched_s:g} s"
    )


def _await_full(worker: subprocess.Popen[bytes], url: str, group: str) -> None:
    slots = plan.PROCESSES * plan.SLOTS_PER_PROCESS
    with Redis.from_url(url) as redis:

        def full() -> bool:
            if worker.poll() is not None:
                raise BenchError("the worker ended before its slots were taken")
            keys = redis.keys(f"onceward:{group}:worker:*")
            loads = [json.loads(load) for load in redis.mget(keys) if load] if keys else []
            return any(load["held"] >= slots and load["waiting"] > 0 for load in loads)

        eventually(full, timeout_s=FULL_WITHIN_S, interval_s=0.2, what="all slots taken")


def _samples(pid: int) -> list[float]:
    pause = threading.Event()
    end_s = monotonic_s() + WATCH_S
    samples = [tree_pss_mib(pid)]
    while monotonic_s() < end_s:
        pause.wait(SAMPLE_EVERY_S)
        samples.append(tree_pss_mib(pid))
    return samples
