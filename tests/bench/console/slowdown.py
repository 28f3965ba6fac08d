"""What a person at the console costs a worker of the same group, on the same journal."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle

import httpx
from kafka import KafkaProducer
from sqlalchemy import Engine, bindparam, text

from feedback.records.envelope import REQUEST_ID
from tests.bench.console.screens import read
from tests.bench.measure.figures import median_ratio
from tests.eventually import eventually

# A person who clicks without end.
PAGE_EACH_S = 1.0
DONE_WITHIN_S = 120.0

_BURST = text(
    "SELECT count(*), min(claimed_at), max(finished_at) FROM onceward_request "
    'WHERE "group" = :group AND request_id IN :ids AND state = :state'
).bindparams(bindparam("ids", expanding=True))


@contextmanager
def reader(address: str, paths: Sequence[str]) -> Iterator[None]:
    """Read a page each second for the length of the block, all in turn."""
    is_over = threading.Event()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            with httpx.Client(base_url=address) as console:
                for path in cycle(paths):
                    read(console, path)
                    if is_over.wait(PAGE_EACH_S):
                        return
        except BaseException as error:  # the block's end raises it
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    if failed:
        raise failed[0]


def burst_per_s(
    engine: Engine, bootstrap_servers: str, *, group: str, topic: str, requests: int
) -> float:
    """Return how many requests a second a running worker ends, of a burst that waits for it."""
    ids = [uuid.uuid4().hex for _ in range(requests)]
    with KafkaProducer(bootstrap_servers=bootstrap_servers, linger_ms=20) as producer:
        sent = [
            producer.send(topic, value=b"{}", headers=[(REQUEST_ID, one.encode())]) for one in ids
        ]
        for future in sent:
            future.get(timeout=60)
    asked: Mapping[str, object] = {"group": group, "ids": ids, "state": "SUCCEEDED"}

    def all_ended() -> tuple[int, int] | None:
        with engine.connect() as connection:
            count, first_ms, last_ms = connection.execute(_BURST, asked).one()
        return (first_ms, last_ms) if count == requests else None

    times = eventually(all_ended, timeout_s=DONE_WITHIN_S, interval_s=1.0, what="the burst's end")
    assert times is not None
    return 1000 * requests / (times[1] - times[0])


def slows_percent(
    alone: Callable[[], float], beside: Callable[[], float], *, pairs: int
) -> tuple[float, list[tuple[float, float]]]:
    """Return by how many percent a reader slows a worker, the median of pairs, and the pairs.

    The two of a pair follow each other, now the one first and now the other: what else the machine
    does changes slowly.
    """
    measured: list[tuple[float, float]] = []
    for number in range(pairs):
        if number % 2:
            beside_per_s = beside()
            measured.append((beside_per_s, alone()))
        else:
            alone_per_s = alone()
            measured.append((beside(), alone_per_s))
    ratio = median_ratio(measured)
    assert ratio is not None
    return 100 * (1 - ratio), measured
