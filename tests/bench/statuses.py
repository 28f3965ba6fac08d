"""What a request's status takes in Redis, by state: `make bench-statuses` (docs: Sizes).

Clients' and workers' own statuses are written to a Redis of its own, so nothing else counts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from consumer.handlers.declaration import Handler
from consumer.handlers.delivery import Delivery, receive
from consumer.journal import Finish
from consumer.ops.startup import worker_id_on
from consumer.status import status_messages
from feedback.clock import epoch_ms
from feedback.records.envelope import Record, encode_headers
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import RedisSection
from feedback.statuses import StatusWrite
from producer_client.sending.send_rules import pending_write
from producer_client.submission import Prepared, Submission, prepare
from tests.bench.launching import ROOT
from tests.bench.rows import write_json
from tests.stack import Stack

OUTPUT = ROOT / "build" / "bench" / "statuses.json"
GROUP = "payments"
WORKER = worker_id_on("payments-worker-7d9f6c5b4d-x2x9k.eu-central-1.compute.internal")
DEADLINE_S = 3600.0
BATCH = 256
PADDING = "x" * 80
RESULTS = {
    "": '{"charged": true, "amount": 4999}',
    ", result of 160 bytes": '{"charged": true, "receipt": "' + "7" * 129 + '"}',
}


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement, by the names of docs: Files of figures; bytes a request.

    Attributes:
        payload_bytes: of its key, 0 without one.
        all_bytes: what the server's memory grew by: with keys, lifetimes and the resender's set.
    """

    state: str
    requests: int
    value_bytes: int
    hash_bytes: float
    payload_bytes: float
    all_bytes: float


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.statuses")
    parser.add_argument("--requests", type=int, default=4_000, help="default: %(default)s")
    parser.add_argument("--listpack", help="the server's hash-max-listpack-value")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="default: build/bench/…")
    asked = parser.parse_args(arguments)
    rows: list[Row] = []
    with Stack.start(kafka=False, postgres=False, environ={}) as servers:
        section = RedisSection(url=servers.redis)
        with closing(StatusStore(connect(section), GROUP, section)) as store:
            if asked.listpack is not None:
                store.redis.config_set("hash-max-listpack-value", asked.listpack)
            # What a server takes once, for connections and its own tables, belongs to no request.
            list(_measured(store, BATCH, "", ""))
            for name, result in RESULTS.items():
                rows += _measured(store, asked.requests, name, result)
    write_json(asked.output, [asdict(row) for row in rows])
    for row in rows:
        print(row, flush=True)
    return 0


def _measured(store: StatusStore, requests: int, name: str, result: str) -> Iterator[Row]:
    store.redis.flushall()
    before = _used(store)
    prepared = [_prepared(number) for number in range(requests)]
    size = len(prepared[0].payload.value or b"")
    deliveries = [_delivery(number, one) for number, one in enumerate(prepared)]
    finish = Finish("", 1, "SUCCEEDED", None, None, result, resend=False)
    for state, writes in (
        ("PENDING", [pending_write(one, one.payload) for one in prepared]),
        ("ACCEPTED", [status_messages.accepted(one, worker_id=WORKER) for one in deliveries]),
        ("RUNNING", [status_messages.running(one, 1, worker_id=WORKER) for one in deliveries]),
        (
            "SUCCEEDED" + name,
            [status_messages.finished(one, finish, worker_id=WORKER) for one in deliveries],
        ),
    ):
        _write(store, writes)
        used = _used(store)
        yield Row(
            state,
            requests,
            size,
            _mean(store, [store.request_key(one.request_id) for one in prepared]),
            _mean(store, [store.payload_key(one.request_id) for one in prepared]),
            round((used - before) / requests, 1),
        )


def _prepared(number: int) -> Prepared:
    payment = {"operation": number, "card": f"{number:016d}", "price": 49.99, "note": PADDING}
    return prepare(
        Submission(payment, f"customer-{number % 1000}"),
        default_topic="payments",
        default_deadline_s=DEADLINE_S,
        now_ms=epoch_ms(),
    )


def _delivery(number: int, one: Prepared) -> Delivery:
    headers = tuple(encode_headers(one.envelope))
    record = Record(
        one.payload.topic,
        number % 8,
        number,
        epoch_ms(),
        one.payload.key,
        one.payload.value,
        headers,
    )
    handler = Handler(function=lambda request: None, topic="payments", name="payments:charge")
    found = receive(
        record,
        handler,
        group="bench",
        default_deadline_s=DEADLINE_S,
        now_s=0.0,
        now_ms=epoch_ms(),
    )
    assert isinstance(found, Delivery)
    return found._replace(claimed_at=epoch_ms())


def _write(store: StatusStore, writes: Sequence[StatusWrite]) -> None:
    for at in range(0, len(writes), BATCH):
        refused = store.write(writes[at : at + BATCH], look_at=epoch_ms() + 30_000)
        assert refused == [None] * len(refused)


def _mean(store: StatusStore, keys: Sequence[str]) -> float:
    some = keys[:: max(1, len(keys) // 500)]
    found = [store.redis.memory_usage(key, samples=0) or 0 for key in some]
    return round(sum(found) / len(found), 1)


def _used(store: StatusStore) -> int:
    """Return the bytes of keys, values and lifetimes: neither connections nor scripts count."""
    found: dict[str, Any] = store.redis.memory_stats()
    return int(found["dataset.bytes"] + sum(found.get("db.0", {}).values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
