"""The cases on one database: what an insert adds, how fast a relay is, what its kills cost."""

from __future__ import annotations

import random
import statistics
import time
from collections import Counter
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from sqlalchemy import text

from feedback.clock import epoch_ms, monotonic_s
from feedback.records.envelope import Record, decode_headers
from producer_client import Client
from tests.bench.outbox.scene import PARTITIONS, Scene
from tests.eventually import eventually

LIMIT_S = 900.0
Figures = dict[str, Any]


def insert(scene: Scene, *, rounds: int) -> Figures:
    """Time a transaction with a send and without, in turn, over one connection."""
    plain_ms: list[float] = []
    with_ms: list[float] = []
    with Client(scene.settings) as client, scene.engine.connect() as connection:
        connection.execute(text("CREATE TABLE orders (id INTEGER)"))
        connection.commit()
        order = text("INSERT INTO orders VALUES (1)")
        for number in range(2 * rounds + 40):
            began_s = time.perf_counter()
            connection.execute(order)
            if number % 2:
                client.send({"amount": number}, key="card", connection=connection)
            connection.commit()
            took_ms = (time.perf_counter() - began_s) * 1000
            if number >= 40:
                (with_ms if number % 2 else plain_ms).append(took_ms)
    return {
        "case": "insert",
        "rounds": rounds,
        "adds_p50_ms": round(statistics.median(with_ms) - statistics.median(plain_ms), 3),
        "plain_p50_ms": round(statistics.median(plain_ms), 3),
        "with_p50_ms": round(statistics.median(with_ms), 3),
        "with_p99_ms": round(statistics.quantiles(with_ms, n=100)[98], 3),
    }


def relay(scene: Scene, *, requests: int) -> Figures:
    """Time one relay over rows that are there."""
    with Client(scene.settings) as client:
        scene.write(client, requests)
    with scene.relay():
        eventually(lambda: scene.sent() > 0, timeout_s=LIMIT_S, interval_s=0.01)
        began_s, first = monotonic_s(), scene.sent()
        eventually(lambda: scene.sent() == requests, timeout_s=LIMIT_S, interval_s=0.05)
        took_s = monotonic_s() - began_s
    return {
        "case": "relay",
        "requests": requests,
        "requests_per_s": round((requests - first) / took_s),
        "seconds": round(took_s, 2),
    }


def latency(scene: Scene, *, requests: int, rate: float = 50.0) -> Figures:
    """Commit a request at a time while a relay runs; compare with when a consumer sees it."""
    seen: dict[str, float] = {}
    committed: dict[str, float] = {}
    with (
        Client(scene.settings) as client,
        scene.relay(),
        KafkaConsumer(bootstrap_servers=scene.servers.kafka) as consumer,
        scene.engine.connect() as connection,
    ):
        partitions = [TopicPartition(scene.topic, number) for number in range(PARTITIONS)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        client.send(b"first", request_id="first", connection=connection)
        connection.commit()
        until_s = monotonic_s() + LIMIT_S
        began_s = 0.0
        while len(seen) < requests + 1 and monotonic_s() < until_s:
            number = len(committed)
            if "first" in seen and number < requests:
                began_s = began_s or monotonic_s()
                if monotonic_s() >= began_s + number / rate:
                    name = f"r{number}"
                    client.send(b"v", key=name, request_id=name, connection=connection)
                    connection.commit()
                    committed[name] = epoch_ms()
            for batch in consumer.poll(timeout_ms=10).values():
                for one in batch:  # its timestamp is the broker's, of the append
                    seen[_name(one)] = one.timestamp
    took = [seen[name] - at for name, at in committed.items() if name in seen]
    return {
        "case": "latency",
        "requests": requests,
        "p50_ms": round(statistics.median(took), 1),
        "p99_ms": round(statistics.quantiles(took, n=100)[98], 1),
    }


def _name(found: Any) -> str:
    where = (found.topic, found.partition, found.offset, found.timestamp)
    return decode_headers(Record(*where, None, None, tuple(found.headers))).request_id


def kills(scene: Scene, *, requests: int, times: int) -> Figures:
    """Kill a relay so many times on its way through rows that are there."""
    with Client(scene.settings) as client:
        scene.write(client, requests)
    chance = random.Random(requests)
    short = {"ONCEWARD_OUTBOX__LEASE_S": "1", "ONCEWARD_OUTBOX__POLL_S": "0.2"}
    for number in range(times):
        with scene.relay(**short):
            share = requests * (number + 1) // (times + 1) - requests // (times + 1)
            eventually(lambda: scene.sent() > share, timeout_s=LIMIT_S, interval_s=0.01)  # noqa: B023
            time.sleep(chance.random() * 0.1)
    with scene.relay(**short):
        eventually(lambda: scene.sent() == requests, timeout_s=LIMIT_S, interval_s=0.1)
    found = Counter(scene.in_topic())
    ran = scene.ran(len(found))
    return {
        "case": "kills",
        "requests": requests,
        "kills": times,
        "lost": requests - len(found),
        "sent_twice": sum(found.values()) - len(found),
        "not_run": len(found.keys() - ran.keys()),
        "ran_twice": sum(count > 1 for count in ran.values()),
    }
