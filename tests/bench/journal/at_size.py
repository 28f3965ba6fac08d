"""`python -m tests.bench.journal.at_size`: the journal with millions of ended requests.

It fills the table by SQL, as ended requests of 28 days lie in it. Then it measures the look for the
open requests after a crash, the pruning of the oldest tenth beside the load, and the load for some
minutes with a snapshot open beside it. Each line that it prints is one of `Minute` or a duration.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

import psycopg

from consumer.journal.journal import Journal
from consumer.journal.leases import Leases
from consumer.journal.schema import migrate
from feedback.clock import monotonic_s
from tests.bench.journal.load import BATCH, run
from tests.bench.journal.sizes import Server
from tests.bench.launching import ROOT
from tests.bench.measure.figures import percentile
from tests.bench.rows import write_json
from tests.stack import Stack
from tests.stack.postgres import dsn, fresh_database

OUTPUT = ROOT / "build" / "bench" / "journal-at-size.json"
GROUP, WORKER = "bench", "bench.example-4711-0123456789abcdef"
LEASE_S = 36_000.0
DAY_MS = 86_400_000
PART = 250_000
PRUNE_BATCH = 1_000
# `{id}`: ids in the order of time, as UUIDv7, or in none.
FILL = """
INSERT INTO onceward_request ("group", request_id, topic, partition, "offset", message_key,
  payload_sha256, attempt, generation, effect_kind, effect_at, deadline_at, state, owner,
  claimed_at, finished_at, result, resend, published_at, voids, in_doubt)
SELECT '{group}', {id}, 'payments', n % 8, n / 8, convert_to('customer-' || n % 1000, 'UTF8'),
  encode(sha256(n::text::bytea), 'hex'), 1, 1, 'marked', t + 5, t + 3600000,
  CASE WHEN n % 10000 = 7 THEN 'IN_DOUBT' ELSE 'SUCCEEDED' END, '{owner}',
  t, t + 20, '{{"charged": true, "amount": 4999}}', 0, t + 30, 0, 'park'
FROM (SELECT n, (extract(epoch FROM now()) * 1000)::bigint - {oldest} + n * {oldest} / {rows} AS t
      FROM generate_series({first}::bigint, {last}::bigint) AS n) AS requests
"""
IDS = {
    "ordered": "(lpad(to_hex(t), 12, '0') || '7' || substr(md5(n::text), 1, 19))::uuid::text",
    "random": "md5(n::text)::uuid::text",
}


@dataclass(frozen=True, slots=True)
class Minute:
    """A minute of load, by the names of docs: Files of figures.

    Attributes:
        beside: what else went on.
        open_bytes: of the copy of the open requests, with its indexes.
    """

    beside: str
    minute: int
    requests_per_s: float
    p99_ms: float
    wal_bytes_per_request: float
    heap_bytes: int
    index_bytes: int
    open_bytes: int


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.journal.at_size")
    parser.add_argument("--rows", type=int, default=10_000_000, help="default: %(default)s")
    parser.add_argument("--ids", choices=IDS, default="ordered", help="default: %(default)s")
    parser.add_argument("--minutes", type=int, default=10, help="default: %(default)s")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="default: build/bench/…")
    asked = parser.parse_args(arguments)
    with ExitStack() as opened:
        # A server that the environment names is taken as it is.
        environ = {name: one for name, one in os.environ.items() if "JOURNAL" in name}
        servers = opened.enter_context(Stack.start(kafka=False, redis=False, environ=environ))
        url = opened.enter_context(fresh_database(servers.postgres, "bench_at_size"))
        migrate(url)
        _told("fill", _fill(url, asked.rows, asked.ids))
        journal = opened.enter_context(closing(Journal(url, group=GROUP, worker_id=WORKER)))
        leases = opened.enter_context(closing(Leases(url, group=GROUP, worker_id=WORKER)))
        leases.register(LEASE_S)
        server = opened.enter_context(closing(Server(url)))
        look_s = _told("look", _look(url, journal))
        minutes = [_minute(journal, server, "nothing", 1)]
        pruner = opened.enter_context(ProcessPoolExecutor(1, mp_context=get_context("spawn")))
        pruning = pruner.submit(_prune, url, asked.rows // 10)
        while not pruning.done():
            minutes.append(_minute(journal, server, "prune", len(minutes)))
        pruned, prune_s = pruning.result()
        _told(f"prune of {pruned}", prune_s)
        snapshot = opened.enter_context(psycopg.connect(dsn(url)))
        snapshot.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        snapshot.execute("SELECT count(*) FROM onceward_open")
        for number in range(1, asked.minutes + 1):
            minutes.append(_minute(journal, server, "open snapshot", number))
    figures = {"rows": asked.rows, "ids": asked.ids, "look_s": round(look_s, 1), "pruned": pruned}
    figures |= {"prune_s": round(prune_s, 1)}
    write_json(asked.output, {**figures, "minutes": [asdict(one) for one in minutes]})
    return 0


def _told(what: str, seconds: float) -> float:
    print(f"{what}: {seconds:.1f} s", flush=True)
    return seconds


def _fill(url: str, rows: int, ids: str) -> float:
    began_s = monotonic_s()
    facts = {"group": GROUP, "owner": WORKER, "rows": rows, "oldest": 28 * DAY_MS, "id": IDS[ids]}
    with psycopg.connect(dsn(url), autocommit=True) as connection:
        # No trigger: the look finds the open ones.
        connection.execute("SET session_replication_role = replica")
        for first in range(0, rows, PART):
            last = min(first + PART, rows) - 1
            connection.execute(FILL.format(first=first, last=last, **facts))
        connection.execute("VACUUM (ANALYZE) onceward_request")
    return monotonic_s() - began_s


def _look(url: str, journal: Journal) -> float:
    """Return how long the look takes; before it the copy is empty, as after a crash."""
    with psycopg.connect(dsn(url), autocommit=True) as connection:
        connection.execute("TRUNCATE onceward_open, onceward_open_look")
        began_s = monotonic_s()
        journal.find_open_requests()
        look_s = monotonic_s() - began_s
        found = connection.execute("SELECT count(*) FROM onceward_open").fetchone()
    print(f"found open: {found}", flush=True)
    return look_s


def _prune(url: str, most: int) -> tuple[int, float]:
    began_s, pruned = monotonic_s(), 0
    with closing(Journal(url, group=GROUP, worker_id="")) as journal:
        while pruned < most:
            deleted = journal.prune(DAY_MS, PRUNE_BATCH).requests
            pruned += deleted
            if deleted < PRUNE_BATCH:
                break
    return pruned, monotonic_s() - began_s


def _minute(journal: Journal, server: Server, beside: str, number: int) -> Minute:
    requests, turn_ms = 0, list[float]()
    before, began_s = server.counted(), monotonic_s()
    while monotonic_s() - began_s < 60:
        done = run(journal, 40 * BATCH)
        requests += done.requests
        turn_ms += done.turn_ms
    seconds = monotonic_s() - began_s
    sizes = server.sizes()
    minute = Minute(
        beside=beside,
        minute=number,
        requests_per_s=round(requests / seconds, 1),
        p99_ms=round(percentile(turn_ms, 99), 2),
        wal_bytes_per_request=round((server.counted().wal_bytes - before.wal_bytes) / requests, 1),
        heap_bytes=sizes.heap_bytes,
        index_bytes=sizes.index_bytes,
        open_bytes=server.open_bytes(),
    )
    print(minute, flush=True)
    return minute


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
